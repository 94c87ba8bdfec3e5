"""Files of external numbers: what a program or a person writes into them, read rightly or told with its line."""

import pytest
from reference_files import AVERAGES, problems, written

from results.references import Reference, load_references

HEADER = "model,data_set,measure,similarity,value,source\n"
ROW = "m,nq,nDCG@10,cosine,40,s\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_file_of_a_spreadsheet_is_read_as_any_other(tmp_path, encoding, end):
    path = tmp_path / "sheet.csv"
    path.write_bytes((HEADER + ROW.replace(",s", ',"Müller, 2026"')).replace("\n", end).encode(encoding))
    [found] = load_references([str(path)])
    assert (found.model, found.value, found.source, found.place) == ("m", 0.4, "Müller, 2026", f"{path}:2")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ((HEADER + ROW).replace(",", ";"), "its columns are separated by semicolons (write commas between them)"),
        ((HEADER + ROW).replace(",", "\t"), "its columns are separated by tabs"),
        (HEADER, "has no line below its header"),
        (HEADER + ROW.replace(",s", ",s,more"), "has more values than the header has columns (6)"),
        (HEADER + ROW.replace("40", "-4"), "'-4' is not a score of 0 to 100 (points)"),
        (HEADER + ROW.replace("40", "nan"), "'nan' is not a score"),
        (HEADER + ROW.replace("40", '"40,5"'), "'40,5' is not a score"),
        (HEADER + ROW.replace("nDCG@10,cosine,40", "Spearman,cosine,-140"), "is not a score of -100 to 100 (points)"),
        (HEADER + ROW * 2, "stands in"),
        (HEADER + ROW + ROW.replace("40", "41"), "has another value in"),
        (HEADER.replace("value", "value,value"), "stands twice in the header"),
        (HEADER + ROW.replace("m,", "m" * 200_000 + ","), "cannot be read as a CSV file"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(tmp_path, text, told):
    [problem] = [text for text in problems(written(tmp_path, text)) if told in text]
    assert "\n" not in problem


def test_what_is_no_text_is_told(tmp_path):
    path = tmp_path / "latin.csv"
    path.write_bytes((HEADER + ROW.replace(",s", ",Müller")).encode("latin-1"))
    assert "cannot be read as a CSV file" in problems(str(path))[0]
    assert "cannot be read as a CSV file" in problems(str(tmp_path))[0]


def test_a_negative_correlation_is_one(tmp_path):
    path = written(tmp_path, HEADER + "m,stsb,Spearman,cosine,-40,s\n")
    assert load_references([path])[0].value == -0.4


def test_fractions_are_said_to_be_such(tmp_path):
    path = written(tmp_path, "model,data_set,measure,similarity,value,source\nm,nq,nDCG@10,cosine,0.4,s\n")
    [problem] = problems(path)
    assert "no value is above 1" in problem
    assert load_references([f"{path},unit=fraction"])[0].value == 0.4
    assert load_references([f"{path},unit=points"])[0].value == pytest.approx(0.004)


def test_every_fault_of_a_file_is_told_with_its_line(tmp_path):
    header = "model,data_set,measure,similarity,value,source\n"
    path = written(
        tmp_path,
        f"{header}m,nq,nDCG@10,cosin,40,s\nm,nq,nDCG@10,dot,many,s\nm,nq,nDCG@10,dot,140,s\nm,,nDCG@10,dot,40,s\n,nq,nDCG@10,dot,40,s\n",
    )
    found = problems(path)
    assert [text.removeprefix(path).split(":")[1] for text in found] == ["2", "3", "4", "5", "6"]
    assert "did you mean 'cosine'?" in found[0]
    assert "'many' is not a score" in found[1]
    assert "'140' is not a score of 0 to 100 (points)" in found[2]
    assert "a group's own average" in found[3]
    assert "model: is empty" in found[4]


def test_a_header_that_lacks_columns_says_how_to_give_them(tmp_path):
    path = written(tmp_path, "dataset,QNorm,Cosin\nnq,1,2\n")
    found = problems(path)
    assert "'cosin' is not a column (did you mean 'cosine'?)" in found[0]
    assert [text.split(": ")[1] for text in found[1:]] == ["model", "measure", "source"]
    assert f"{path},model=..." in found[1]
    assert "the file has that column" in problems(f"{written(tmp_path, AVERAGES)},model=x")[0]
    assert "cannot be read" in problems(str(tmp_path / "none.csv"))[0]


def test_a_source_that_contradicts_itself_is_refused(tmp_path):
    header = "model,group,data_set,measure,similarity,value,source\n"
    row = "m,{},hotpotqa,nDCG@10,cosine,{},s\n"
    assert len(load_references([written(tmp_path, header + row.format("beir", 40) + row.format("multi_hop", 40))])) == 2
    [other] = problems(written(tmp_path, header + row.format("beir", 40) + row.format("multi_hop", 41)))
    assert "has another value in" in other
    [twice] = problems(written(tmp_path, header + row.format("beir", 40) * 2))
    assert "already" in twice


def test_given_columns_may_hold_commas_and_paths_too(tmp_path):
    path = written(tmp_path, "data_set,similarity,value\nnq,cosine,40.5\n", "a,b.csv")
    [reference] = load_references([f"{path},model=m,measure=nDCG@10,source=A, B and C, 2026,unit=points"])
    assert reference == Reference(
        model="m",
        init_regime=None,
        group=None,
        data_set="nq",
        measure="nDCG@10",
        similarity="cosine",
        value=0.405,
        source="A, B and C, 2026",
        place=f"{path}:2",
    )
