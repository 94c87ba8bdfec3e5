"""A sweep whose folder is on a disk that fills up: it waits, says what takes how much, and ends as ever."""

import pytest
from outcomes import checkpoints_of, table_of
from small_disk import fill, relieve, small_disk

pytestmark = pytest.mark.heavy


def _run(sweep) -> tuple[int, str, str]:
    process = sweep.start("run", sweep.file.name)
    out, err = process.communicate(timeout=600)
    return process.returncode, out, err


def test_a_sweep_waits_for_space_and_changes_no_number(make_sweep, tmp_path):
    blocks = {"axes": {"similarity": "cosine"}, "training": {"steps": 6}, "checkpoints": {"every_steps": 2}}
    undisturbed = make_sweep("undisturbed", **blocks)
    assert _run(undisturbed)[0] == 0
    with small_disk(tmp_path / "disk", 700 * 2**20) as disk:
        sweep = make_sweep("disturbed", **blocks, storage=str(disk / "sweep"))
        fill(disk, but=60 * 2**20)  # one checkpoint to resume from does not fit
        driver = sweep.start("run", sweep.file.name)
        said = []
        for line in driver.stdout:
            said.append(line)
            if "MiB left of" in line or "KiB left of" in line:
                break
        assert any("Trials wait for space" in line for line in said), "".join(said) + driver.stderr.read()
        assert any("waiting for space: " in line and "No space left on device" in line for line in said), "".join(said)
        assert any("final checkpoints" in line or "rows and records" in line for line in said)
        relieve(disk)
        out, err = driver.communicate(timeout=600)
        assert driver.returncode == 0, "".join(said) + out + err
        folder = sweep.__class__(file=sweep.file, folder=disk / "sweep")
        assert {status["attempt"] for status in folder.statuses().values()} == {1}
        assert {status["state"] for status in folder.statuses().values()} == {"finished"}
        assert checkpoints_of(folder) == checkpoints_of(undisturbed)
        assert table_of(folder) == table_of(undisturbed)


def test_a_quota_without_room_fails_trials_with_what_to_do(make_sweep):
    sweep = make_sweep(axes={"similarity": "cosine"}, checkpoints={"quota": "10MiB", "wait_for_space_s": 0})
    code, out, err = _run(sweep)
    assert code == 1, out + err
    reasons = {status["reason"] for status in sweep.statuses().values()}
    assert all("would exceed checkpoints.quota of 10.0 MiB" in reason for reason in reasons)
    assert "error" not in err
    sweep.file.write_text(sweep.file.read_text().replace("10MiB", "10GiB"))
    assert _run(sweep)[0] == 0
    assert {status["state"] for status in sweep.statuses().values()} == {"finished"}
