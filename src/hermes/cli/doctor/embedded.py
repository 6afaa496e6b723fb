"""Looks whether the model that runs on this machine is all there. Nothing is started for it."""

from __future__ import annotations

from hermes.cli.doctor.finding import Finding, broken, ok, warning
from hermes.cli.model.desk import Desk
from hermes.errors import ConfigError
from hermes.local.install.install import inspect
from hermes.local.install.parts import RUNTIME
from hermes.local.install.weights import find_model

_INSTALL = "hermes local install"


def check_embedded(desk: Desk, role: str) -> Finding:
    """Whether its runtime and its weights are here and are the right ones."""
    # A fallback that fails leaves the model that is asked first in working order.
    report = broken if role == "model" else warning
    parts = inspect(desk.home)
    try:
        weights = find_model(desk.config.local, desk.origins.env, desk.home)
    except ConfigError as error:
        return report(role, str(error))
    if weights.is_embedded and not parts.is_intact:
        return report(role, f"{weights.path} is damaged", command=_INSTALL)
    if parts.runtime is None or not parts.runtime.is_known:
        version = parts.runtime.version if parts.runtime else "none"
        return warning(role, f"{RUNTIME} {version} is not a version this program knows", command=_INSTALL)
    what = f"{weights.path} and {RUNTIME} {parts.runtime.version} are here"
    if desk.models.is_standing_in and weights.is_embedded:
        return warning(role, f"{what}; it is a toy that answers while no other model is set up", command="hermes model")
    return ok(role, what)
