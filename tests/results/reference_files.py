"""Files of external numbers that tests write, and what is wrong with one."""

import pytest

from results.references import load_references
from search_spaces.problems import InputError

# arXiv 2602.09229, its table of averages per benchmark: nDCG@10 x 100, means of three seeds.
AVERAGES = """model,group,data_set,measure,similarity,value,source
Contriever,BEIR,,nDCG@10,cosine,40.96,"arXiv 2602.09229, averages"
Contriever,BEIR,,nDCG@10,qnorm,44.01,"arXiv 2602.09229, averages"
Contriever,BRIGHT,,nDCG@10,cosine,7.41,"arXiv 2602.09229, averages"
Contriever,BRIGHT,,nDCG@10,qnorm,12.74,"arXiv 2602.09229, averages"
RetroMAE,BEIR,,nDCG@10,cosine,38.28,"arXiv 2602.09229, averages"
RetroMAE,BEIR,,nDCG@10,dnorm,41.15,"arXiv 2602.09229, averages"
RetroMAE,BRIGHT,,nDCG@10,cosine,6.11,"arXiv 2602.09229, averages"
RetroMAE,BRIGHT,,nDCG@10,dnorm,9.46,"arXiv 2602.09229, averages"
"""


def written(folder, text, name="numbers.csv"):
    path = folder / name
    path.write_text(text)
    return str(path)


def problems(*paths):
    with pytest.raises(InputError) as error:
        load_references(paths)
    return [str(problem) for problem in error.value.problems]
