"""Predictors of the better of qnorm and dnorm: the rules, one module each; `results.predictions` lists them."""
