"""``hermes workers``: the workers of a cluster, for those who operate it."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from hermes.cli.serve.cluster.worker import require_cluster
from hermes.cli.terminal import plain, print_json, running_time
from hermes.config import apply_env, hermes_home, load_config, load_env_file
from hermes.errors import HermesError, did_you_mean

if TYPE_CHECKING:
    from hermes.dispatch.cluster.membership import WorkerRow
    from hermes.dispatch.cluster.operators import Operators


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands."""
    parser.set_defaults(action=_list, json=False)
    actions = parser.add_subparsers(metavar="ACTION")
    for name, action, summary in (
        ("list", _list, "list the workers and what waits (the default)"),
        ("drain", _drain, "let a worker finish its turns, take no new ones, and end"),
        ("evict", _evict, "remove a worker by force: its connections end, and others continue its turns"),
    ):
        made = actions.add_parser(name, help=summary, description=summary)
        made.set_defaults(action=action)
        if name == "list":
            made.add_argument("--json", action="store_true", help="print one JSON document")
        else:
            made.add_argument("worker", metavar="ID", help="the id of 'hermes workers list', or its beginning")


def run(args: argparse.Namespace) -> int:
    """Do what was asked for."""
    home = hermes_home()
    apply_env(load_env_file(home))
    config = load_config(home).config
    require_cluster(config)
    from hermes.dispatch.cluster.operators import Operators

    with Operators(config.journal) as operators:
        return args.action(args, operators)


def _list(args: argparse.Namespace, operators: Operators) -> int:
    workers, waiting = operators.workers(), operators.waiting()
    if args.json:
        print_json({"workers": [asdict(worker) for worker in workers], "waiting": waiting})
        return 0
    if not workers:
        print("no worker runs; start one with: hermes worker")
    else:
        numbers = f"{'TURNS':>5} {'SLOTS':>5} {'CHILD SLOTS':>11}"
        print(f"{'ID':<17} {'HOST':<16} {'PID':>7} {numbers} {'STATE':<9} {'SINCE':>8}  {'SEEN':>7}  WORKSPACE")
    now = time.time()
    for worker in workers:
        slots = f"{worker.running:>5} {worker.slots:>5} {worker.child_slots:>11}"
        since, seen = running_time(max(now - worker.started_at, 0)), f"{worker.silent:.1f} s"
        print(
            f"{worker.id:<17} {plain(worker.host)[:16]:<16} {worker.pid:>7} {slots} {worker.state:<9} "
            f"{since:>8}  {seen:>7}  {plain(worker.workspace) or 'shared'}"
        )
    print(f"{waiting} turns wait" if waiting != 1 else "1 turn waits")
    return 0


def _drain(args: argparse.Namespace, operators: Operators) -> int:
    worker = _named(args.worker, operators)
    operators.drain(worker.id)
    print(f"worker {worker.id} drains: {worker.running} turns are running")
    return 0


def _evict(args: argparse.Namespace, operators: Operators) -> int:
    worker = _named(args.worker, operators)
    operators.evict(worker.id)
    print(f"worker {worker.id} is removed; other workers continue its turns")
    return 0


def _named(beginning: str, operators: Operators) -> WorkerRow:
    workers = operators.workers()
    found = [worker for worker in workers if worker.id.startswith(beginning)]
    if len(found) == 1:
        return found[0]
    if found:
        raise HermesError(f"several workers start with {beginning!r}; give more of the id")
    raise HermesError(f"there is no worker {beginning!r}{did_you_mean(beginning, [worker.id for worker in workers])}")
