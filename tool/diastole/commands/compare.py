"""`diastole compare`: train in many configurations, with several seeds, and report their costs.

A configuration is settings of the machine (format=bfp4, rounding.dy=stochastic-a) and options of
`train` (precision=low). All trainings run on the golden model, which has the bits of the hardware.
"""

import argparse
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from diastole import install
from diastole.commands import network_options, train
from diastole.commands.arguments import (
    MAX_SEED,
    Commands,
    add_config,
    add_json,
    integer,
    read_config,
)
from diastole.commands.parser import Parser
from diastole.commands.progress import progress
from diastole.commands.train_options import NO_AXES, TrainOptions
from diastole.compare.jobs import Job
from diastole.compare.pool import run_jobs
from diastole.compare.results import Results, opened
from diastole.compare.runs import RunnableConfig, Runs
from diastole.compare.study import (
    NETWORK,
    PRESET,
    ComparisonPlan,
    Named,
    overrides_of,
    parse_configuration,
    read_plan,
    unique,
    with_axes,
)
from diastole.compare.summary import verdict_on
from diastole.config.file import FIELDS, SECTIONS, from_document, value_mistake
from diastole.config.keys import Config
from diastole.config.presets import BOARD_MACHINES, PRESET_NAMES, PRODUCTS_ONLY
from diastole.console import fail, note, print_json, say, say_next
from diastole.errors import BadInput
from diastole.files.outputs import check_output, check_picture
from diastole.files.sample_files import read_samples
from diastole.layers.sweep import merge_overrides, same_key
from diastole.learning.task import own_task
from diastole.nearest import suggestion
from diastole.report import compare_picture, compare_table
from diastole.workers import usable_cores
from diastole_sim.spec.limits import MAX_STEPS
from diastole_sim.spec.require import excerpt, whole_number
from diastole_sim.train.tasks import Task, task_of_samples
from diastole_sim.trainer.tasks import AccumulateError, microbatch_size

SEEDS = (0, 1, 2)
SETTINGS = (PRESET,)
"""Settings of a configuration, besides keys of the machine and options of `train`."""
RESULTS = Path("comparison.jsonl")
DEFAULT_PRESET = "nano"
FIXED = {
    "task": "give --task NAME",
    "data": "give --data PATH",
    "steps": "give --steps N",
    "seed": "give --seeds A,B,...",
    "seeds": "give --seeds A,B,...",
    "backend": "all trainings run on the golden model",
}
"""Advice for options that are equal for all configurations."""


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "compare",
        help="train in many configurations, with error bars and costs",
        description=__doc__,
        epilog="example: diastole compare --task digits --over format=bfp2,bfp4,mxfp8_e4m3 "
        "--seeds 0,1,2 --out comparison.png",
        allow_abbrev=False,
    )
    add_config(parser, presets=True)
    what = parser.add_argument_group("configurations")
    what.add_argument(
        "--plan",
        metavar="PLAN",
        type=Path,
        help="TOML file with task, data, or graph with its data, loss and options; steps, seeds, "
        "machine or preset, set, over, and tables [[configuration]] with a name, keys of the "
        "machine and options of train; options of the command line go before the file",
    )
    what.add_argument(
        "--over",
        metavar="KEY=A,B,...",
        action="append",
        default=[],
        help="compare these values of a key of the machine, of format, block, rounding, scale "
        "or overflow for all classes, of preset, or of an option of train, such as "
        "precision; a value with commas is in brackets, as in hidden=64,[64,64]; several "
        "--over give all combinations",
    )
    what.add_argument(
        "--configuration",
        metavar='"NAME: KEY=A KEY=B"',
        dest="configurations",
        action="append",
        default=[],
        help="add a configuration with these keys; the name may be left out; the first "
        "configuration is the plain configuration, to which all others are compared",
    )
    what.add_argument(
        "--task", metavar="NAME", help=f"task to learn: {train.listed_tasks()} (default: digits)"
    )
    what.add_argument(
        "--steps",
        metavar="N",
        type=integer(1, MAX_STEPS),
        help="minibatches of a run (default: the number of the task)",
    )
    what.add_argument("--seeds", metavar="A,B,...", help="seeds of the runs (default: 0,1,2)")
    network_options.add_network(
        parser,
        data=f"with --graph: {network_options.DATA}; without: an .npz with inputs (samples x "
        "features) and labels, for a perceptron with 64 hidden units",
    )
    how = parser.add_argument_group("execution")
    how.add_argument(
        "--jobs",
        metavar="N",
        type=integer(1, 1024),
        help="number of processes, each with one thread of BLAS (default: one for each core)",
    )
    how.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="address of a Dask cluster that does the runs, such as tcp://10.0.0.1:8786",
    )
    how.add_argument(
        "--results",
        metavar="FILE",
        type=Path,
        default=RESULTS,
        help="file with a line of JSON for every run; runs in the file are not repeated "
        f"(default: {RESULTS})",
    )
    how.add_argument(
        "--out",
        metavar="PICTURE",
        type=Path,
        help="picture of the loss against area x passes and against bits, .png or .svg",
    )
    add_json(parser)
    if isinstance(parser, Parser):
        parser.axes = lambda: TrainOptions().names
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    plan = ComparisonPlan()
    if arguments.plan is not None:
        plan = read_plan(arguments.plan, arguments.over)
    seeds = _seeds(arguments.seeds) or plan.seeds or SEEDS
    requested = _configurations(arguments, plan)
    if arguments.file is not None and arguments.preset is not None:
        raise BadInput("FILE and --preset exclude each other: give one")
    _check_machine(arguments, plan)
    refuse_wrong_values(arguments, plan, requested)
    check_output("--results", arguments.results, (".jsonl",))
    check_picture("--out", arguments.out)
    install.require(install.JOBLIB, install.THREADPOOLCTL)
    if arguments.scheduler is not None:
        install.require(install.DISTRIBUTED)
    tasks = _tasks(arguments, plan, seeds)
    task = tasks[seeds[0]]
    settled, left_out, refused = runnable_configs(arguments, plan, requested, task)
    runs = Runs.of(tasks, settled, arguments.steps or plan.steps or task.steps)
    with opened(arguments.results) as results:
        failed = _run(arguments, runs.jobs, results)
        compared = runs.summarise(results.done)
    verdict = verdict_on(compared[0], compared[1:])
    if arguments.out is not None:
        title = f"{task.name}, {runs.steps} steps, seeds {', '.join(map(str, seeds))}"
        compare_picture.write_comparison(compared, arguments.out, title)
    failures = [*refused, *failed]
    if arguments.json:
        print_json(
            {
                "task": task.name,
                "steps": runs.steps,
                "seeds": list(seeds),
                "results": str(arguments.results),
                "float32": compared[0].reference and compared[0].reference.record(),
                "configurations": [each.record() for each in compared],
                "verdict": verdict and verdict.record(),
                "left_out": left_out,
                "failures": failures,
            }
        )
    else:
        for line in (
            *compare_table.comparison_lines(compared),
            "",
            *compare_table.comparison_legend(seeds),
            "",
            *compare_table.verdict_lines(verdict),
        ):
            say(line)
        if arguments.out is not None:
            say(f"wrote {arguments.out}")
        folder = shlex.quote(str(arguments.results))
        say_next(f"more --seeds narrow the errors; runs are kept in {folder}")
    return 1 if failures else 0


def _seeds(text: str | None) -> tuple[int, ...]:
    """Parse seeds such as "0,1,2". Empty without a text."""
    if text is None:
        return ()
    words = [word.strip() for word in text.split(",")]
    seeds = tuple(seed for word in words if (seed := whole_number(word)) is not None)
    if len(set(seeds)) < len(words) or not all(seed <= MAX_SEED for seed in seeds):
        raise BadInput(
            f"--seeds must be different integers in 0..{MAX_SEED}, such as 0,1,2, "
            f"not {excerpt(text)}"
        )
    return seeds


def _configurations(arguments: argparse.Namespace, plan: ComparisonPlan) -> list[Named]:
    """Return all configurations, first the configurations of the plan."""
    named = [parse_configuration(text) for text in arguments.configurations]
    return unique(with_axes([*plan.configurations, *named], arguments.over))


def _tasks(
    arguments: argparse.Namespace, plan: ComparisonPlan, seeds: Sequence[int]
) -> dict[int, Task]:
    """Return the task by seed: a network of a user, or the task of the command, or of the plan, or
    the digits."""
    training = network_options.own_training(_with_network_of(plan, arguments))
    if training is not None:
        return {seed: own_task(training, seed=seed).task for seed in seeds}
    return dict.fromkeys(seeds, _task(arguments, plan))


def _with_network_of(plan: ComparisonPlan, arguments: argparse.Namespace) -> argparse.Namespace:
    """Return the arguments for :func:`diastole.commands.network_options.own_training`, with the
    plan's options of a network for those that are absent."""
    values: dict[str, Any] = vars(arguments) | {"steps": arguments.steps or plan.steps}
    if plan.network and arguments.task is None:
        try:
            network = TrainOptions().network(plan.network)
        except BadInput as error:
            raise error.within(arguments.plan) from None
        values |= {name: getattr(network, name) for name in NETWORK if values[name] is None}
    if values["graph"] is None:  # --data has samples of a task
        values |= {"data": None, "task": "digits"}
    else:
        values["data"] = arguments.data or plan.data
        values["task"] = arguments.task or (plan.task if arguments.graph is None else None)
    return argparse.Namespace(**values)


def _task(arguments: argparse.Namespace, plan: ComparisonPlan) -> Task:
    """Return the task of the command, or of the plan, or the digits."""
    sources = [
        ("--task", "--data", arguments.task, arguments.data),
        (f"{arguments.plan}: task", "data", plan.task, plan.data),
        ("--task", "--data", "digits", None),
    ]
    option, other, name, data = next(each for each in sources if each[2:] != (None, None))
    if name is not None and data is not None:
        raise BadInput(f"{option} and {other} exclude each other: give only one")
    if data is not None:
        return task_of_samples(read_samples(Path(data)), Path(data).name)
    task = train.named_task(name or "", option)
    train.require_samples(task)
    return task


def _check_machine(arguments: argparse.Namespace, plan: ComparisonPlan) -> None:
    """Raise BadInput, naming the plan, if the command takes a machine from the plan that does not
    exist."""
    if arguments.file is not None or arguments.preset is not None:
        return
    if plan.machine is not None and not plan.machine.exists():
        raise BadInput(f"{arguments.plan}: machine: there is no file {plan.machine}")
    if plan.preset is not None and (mistake := _preset_mistake(plan.preset)):
        raise BadInput(f"{arguments.plan}: {mistake}")


def _preset_mistake(name: str) -> str | None:
    """Return the mistake of an unknown preset; None for a known preset."""
    if name in PRESET_NAMES:
        return None
    near = suggestion(name, PRESET_NAMES)
    return f"preset must be one of {', '.join(PRESET_NAMES)}, not {excerpt(name)}{near}"


def refuse_wrong_values(
    arguments: argparse.Namespace, plan: ComparisonPlan, configurations: Sequence[Named]
) -> None:
    """Raise BadInput with a line for every value of a combination of axes, or of a plan's `set`,
    that is wrong whatever the values of all other keys."""
    options = TrainOptions()
    axes = {same_key(text.partition("=")[0]) for text in arguments.over}
    pairs = dict.fromkeys(plan.settings.items())
    for named in configurations:
        if named.of_axes:
            pairs |= dict.fromkeys(named.settings.items())
    problems: list[str] = []
    keys = list(dict.fromkeys(key for key, _ in pairs))
    for key, value in sorted(pairs, key=lambda pair: keys.index(pair[0])):
        if mistake := _mistake(options, key, value):
            where = arguments.plan or "--configuration"
            problems.append(f"{'--over' if same_key(key) in axes else where}: {mistake}")
    if problems:
        raise BadInput(*dict.fromkeys(problems))


def _mistake(options: TrainOptions, key: str, value: str) -> str | None:
    """Return the mistake of a setting, whatever all other settings; None for a possible value."""
    option = key.replace("-", "_")
    if key == PRESET:
        return _preset_mistake(value)
    if option in options.names:
        return options.mistake(option, value)
    if key in (*FIELDS, *SECTIONS) or "." in key:
        return value_mistake(key, value)
    if option in (*FIXED, *NO_AXES):
        advice = FIXED.get(option, "the option does not belong to a configuration")
        return f"{key} cannot be varied; {advice}"
    known = [name.replace("_", "-") for name in options.names]
    near = suggestion(key, [*options.names, *known, *SETTINGS, *FIELDS, *SECTIONS])
    return (
        f"{key} is neither a key of the machine nor an option of train: see diastole init and "
        f"diastole train --help{near}"
    )


def runnable_configs(
    arguments: argparse.Namespace,
    plan: ComparisonPlan,
    configurations: Sequence[Named],
    task: Task,
) -> tuple[list[RunnableConfig], list[str], list[str]]:
    """Return the configurations that are machines, and the reasons why the rest are none: of
    configurations that are left out, and of failures. Report every reason.

    A combination of axes that is no machine is left out. A configuration that was requested by its
    name is a failure. BadInput if no configuration is left.
    """
    options = TrainOptions()
    learnt = f"--{'task' if task.graph is None else 'graph'}={task.name}"
    settled: list[RunnableConfig] = []
    problems: list[tuple[Named, str]] = []
    for named in configurations:
        try:
            own = () if named.of_axes else named.settings.items()  # axes were checked before
            mistakes = (_mistake(options, *pair) for pair in own)
            if wrong := [mistake for mistake in mistakes if mistake is not None]:
                raise BadInput(*wrong)
            config = _config(arguments, plan, named.settings, options.names)
            training = options.read(config, plan.settings | named.settings, learnt)
            if (program := training.get("program")) is not None:
                microbatch_size(task.batch, program.accumulate)
        except BadInput as error:
            problems += ((named, text.replace("--set: ", "")) for text in error.problems)
        except AccumulateError as error:
            problems.append((named, str(error)))
        else:
            settled.append(RunnableConfig(named=named, config=config, options=training))
    if not settled:
        alone = dict.fromkeys(text for _, text in problems)
        each = (f"{named.name}: {text}" for named, text in problems)
        raise BadInput(*(alone if len(alone) == 1 else each))
    left_out = [f"{named.name}: {text}" for named, text in problems if named.of_axes]
    refused = [f"{named.name}: {text}" for named, text in problems if not named.of_axes]
    for text in left_out:
        note(f"left out: {text}")
    for text in refused:
        fail(text)
    return settled, left_out, refused


def _machine(
    arguments: argparse.Namespace, plan: ComparisonPlan, own: Mapping[str, str]
) -> tuple[Path | None, str | None]:
    """Return the file or the preset that a configuration starts from, with None for the unused of
    the two."""
    file, preset = arguments.file, arguments.preset
    if file is None and preset is None:
        file, preset = plan.machine, plan.preset
    if file is None and preset is None:
        preset = DEFAULT_PRESET
    settings = {**plan.settings, **own}
    if PRESET in settings:
        file, preset = None, settings[PRESET]
    if preset in BOARD_MACHINES:
        file, preset = BOARD_MACHINES[preset], None
    return file, preset


def _config(
    arguments: argparse.Namespace,
    plan: ComparisonPlan,
    own: Mapping[str, str],
    options: Sequence[str],
) -> Config:
    """Return the configuration with these settings.

    FILE or --preset goes before the plan's file or preset; the ``own`` settings may name a preset.
    Own keys go before keys of --set, which go before keys that the plan sets for all
    configurations.
    """
    file, preset = _machine(arguments, plan, own)
    names = [*options, *(name.replace("_", "-") for name in options)]
    common = merge_overrides(overrides_of(plan.settings, names), arguments.overrides)
    overrides = merge_overrides(common, overrides_of(own, names))
    if preset is None:
        return read_config(argparse.Namespace(file=file, overrides=overrides))
    # Only keys that the preset sets: defaults follow from the keys of the configuration, as F from
    # the widths of fast.
    document = PRODUCTS_ONLY[preset].model_dump(exclude_unset=True)
    return from_document(document, overrides, source=f"preset {preset}")


def _run(arguments: argparse.Namespace, jobs: Mapping[str, Job], results: Results) -> list[str]:
    """Run the remaining jobs. Report and return failures and results that are not finite."""
    missing = [job for key, job in jobs.items() if key not in results.done]
    if len(missing) < len(jobs):
        note(f"{len(jobs) - len(missing)} of {len(jobs)} runs are in {arguments.results} already")
    failed: list[str] = []
    if missing:
        processes = arguments.jobs or usable_cores()
        ended = run_jobs(missing, processes=processes, scheduler=arguments.scheduler)
        with progress("comparing, runs") as report:
            for count, record in enumerate(ended, 1):
                results.add(record)
                if record["error"] is not None:
                    failed.append(f"{jobs[record['key']]}: {record['error']}")
                report(count, len(missing), None)
    for key, job in jobs.items():
        failed += [f"{job}: {text}" for text in results.done.get(key, {}).get("not_finite", [])[:1]]
    for text in failed:
        fail(text)
    return failed
