import http.server
import threading
import time

import pytest

from trainers import hub


@pytest.fixture(autouse=True)
def forgotten():
    hub._answers.cache_clear()
    yield
    hub._answers.cache_clear()


def test_a_server_that_answers_is_reachable_and_asked_once(monkeypatch):
    asked = []

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self):
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr(hub, "_ASKED_FOR_S", 1e9)
    assert hub.is_reachable()
    assert hub.is_reachable()
    server.shutdown()
    assert len(asked) == 1


def test_nothing_there_is_said_at_once(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    begun = time.monotonic()
    assert not hub.is_reachable()
    assert time.monotonic() - begun < hub.TIMEOUT_S + 5  # the client itself tries for much longer


def test_offline_mode_asks_nobody(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://nobody.invalid")
    assert not hub.is_reachable()
