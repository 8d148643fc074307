"""A trial of your own: scikit-learn learns handwritten digits; simsched live searches over it."""

import argparse
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import train_test_split

from simsched.live.client import Trial

arguments = argparse.ArgumentParser()
arguments.add_argument("--rate", type=float, required=True)
arguments.add_argument("--alpha", type=float, required=True)
given = arguments.parse_args()

images, labels = load_digits(return_X_y=True)
learn, test, learn_labels, test_labels = train_test_split(
    images / 16, labels, test_size=0.5, random_state=0
)
model = SGDClassifier(
    loss="log_loss", learning_rate="constant", eta0=given.rate, alpha=given.alpha, random_state=0
)


def save(path: str) -> None:
    with open(path, "wb") as file:
        np.savez(file, weights=model.coef_, bias=model.intercept_, updates=model.t_)


def load(path: str) -> None:
    model.partial_fit(learn[:10], learn_labels[:10], classes=np.arange(10))  # makes the arrays
    kept = np.load(path)
    model.coef_, model.intercept_ = kept["weights"], kept["bias"]
    model.t_ = float(kept["updates"])


def change(hparams: dict[str, Any]) -> None:
    model.set_params(eta0=hparams["rate"], alpha=hparams["alpha"])


with Trial(save=save, load=load, change=change) as trial:
    trial.begin()
    while True:
        model.partial_fit(learn, learn_labels, classes=np.arange(10))  # an epoch
        if not trial.report(model.score(test, test_labels)):
            break
