"""The line that tells how far an encoding is."""

from trainers.evaluation.encoding_meter import EncodingMeter


def test_it_tells_texts_their_speed_and_the_time_that_is_left_now_and_then() -> None:
    said: list[str] = []
    now = 100.0
    meter = EncodingMeter("evaluating nq", 12_000, said.append, clock=lambda: now)
    meter(300)
    assert said == []
    now = 110.0
    meter(700)
    now = 119.9
    meter(200)
    assert said == ["evaluating nq: 1,000 of 12,000 texts encoded, 100.0 texts/s, ETA 0:01:50"]
    now = 140.0
    meter(10_800)
    assert said[1:] == ["evaluating nq: 12,000 of 12,000 texts encoded, 300.0 texts/s"]


def test_what_was_done_before_tells_of_no_speed() -> None:
    said: list[str] = []
    now = 0.0
    meter = EncodingMeter("evaluating nq", 2_000_000, said.append, clock=lambda: now)
    meter.skip(1_000_000)
    now = 10.0
    meter(100)
    assert said == ["evaluating nq: 1,000,100 of 2,000,000 texts encoded, 10.0 texts/s, ETA 1 day, 3:46:30"]
