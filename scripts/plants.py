"""Mistakes that were once made in earnest, here or in other compilers for neural networks.

Each is a text that is right and one that is wrong; `scripts/plant_bugs.py` plants it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Plant:
    """A mistake: what replaces what in a file, and the tests of which one has to fail."""

    name: str
    file: str
    right: str
    wrong: str
    tests: tuple[str, ...]


BLOCKS = "tests/dsl/gradcheck/test_standard_blocks.py::test_layers"
RESUME = "tests/runtime/test_resume.py"
LOCKS = "tests/runtime/test_run_folder_lock.py"
GRAPHS = "tests/runtime/plan/test_random_graphs.py"
SESSIONS = "tests/runtime/session/test_sessions.py"
ATTENTION = "tests/runtime/kernels/test_attention.py"

PLANTS = (
    Plant(
        "a sum drops the coefficient after it",
        "meganeura_dsl/ops/broadcast.py",
        "(build.add(Broadcast(x.type.shape, others(self.axes, x.type.rank)), cotangent),)",
        "(full(build, x.type, 1),)",
        (f"{BLOCKS}[<mse>]",),
    ),
    Plant(
        "the gradient of softmax sums the wrong axis",
        "meganeura_dsl/ops/fused/softmax.py",
        "y * (cotangent - np.sum(cotangent * y, axis=self.axis, keepdims=True))",
        "y * (cotangent - np.sum(cotangent * y, axis=0, keepdims=True))",
        ("tests/dsl/ops/fused/test_fused.py",),
    ),
    Plant(
        "log-softmax computes softmax",
        "stdlib_models/nn.mgn",
        "return shifted - insert_axis(log(sum(exp(shifted), axis)), axis, classes)",
        "return exp(shifted) / insert_axis(sum(exp(shifted), axis), axis, classes)",
        ("tests/parity/test_layers.py",),
    ),
    Plant(
        "cross-entropy sums over the batch",
        "stdlib_models/loss.mgn",
        "return -mean(sum(labels * log_softmax(logits), -1))",
        "return -sum(sum(labels * log_softmax(logits), -1))",
        ("tests/parity/test_layers.py",),
    ),
    Plant(
        "binary cross-entropy overflows",
        "stdlib_models/loss.mgn",
        "relu(logits) - logits * target + log(1 + exp(-abs(logits)))",
        "log(1 + exp(logits)) - logits * target",
        ("tests/stdlib_models/test_behaviour.py",),
    ),
    Plant(
        "gelu is its approximation",
        "stdlib_models/nn.mgn",
        "= 0.5 * x * (1 + erf(x * 2 ** -0.5))",
        "= x * sigmoid(1.702 * x)",
        ("tests/parity/test_layers.py",),
    ),
    Plant(
        "the slope of erf belongs to another function",
        "meganeura_dsl/ops/elementwise.py",
        "full(build, x.type, DERIVATIVE_AT_ZERO)",
        "full(build, x.type, 1.128)",
        (f"{BLOCKS}[<gelu>]",),
    ),
    Plant(
        "the last of tied maxima wins",
        "meganeura_dsl/ops/pool.py",
        "(candidate > best)",
        "(candidate >= best)",
        ("tests/dsl/test_autodiff.py",),
    ),
    Plant(
        "a parameter without use gets a scalar gradient",
        "meganeura_dsl/autodiff.py",
        "full(build, value.type, 0) if",
        "build.add(Constant(0.0, value.type.dtype)) if",
        ("tests/dsl/test_autodiff.py",),
    ),
    Plant(
        "a spread keeps the gradient of one axis",
        "meganeura_dsl/ops/broadcast.py",
        "Sum(others(self.axes, len(self.shape)))",
        "Sum(others(self.axes, len(self.shape))[:1])",
        (f"{BLOCKS}[<batch_norm>]",),
    ),
    Plant(
        "a variance is the difference of two large numbers",
        "meganeura_dsl/check/builtin_math.py",
        "return tensors.reduce_mean(frame, span, call.add(ops.Mul(), centered, centered), axes)",
        "whole = tensors.reduce_mean(frame, span, call.add(ops.Mul(), value, value), axes)\n"
        "    return call.add(ops.Sub(), whole, call.add(ops.Mul(), mean, mean))",
        ("tests/parity/test_layers.py",),
    ),
    Plant(
        "indices are divided through a rounded reciprocal",
        "runtime/meganeura_runtime/kernels/writer.py",
        'return f"{self._factor(numerator)} / {divisor}u"',
        'return f"u32(f32({self._factor(numerator)}) * (1.0 / {divisor}.0))"',
        ("tests/runtime/kernels/test_sizes.py", "tests/runtime/kernels/test_ops.py"),
    ),
    Plant(
        "rotary positions all begin at zero",
        "stdlib_models/nn.mgn",
        "angle = expand(f32(iota(s)), [s] -> [s, half]) * rate",
        "angle = expand(0 * f32(iota(s)), [s] -> [s, half]) * rate",
        ("tests/stdlib_models/test_behaviour.py",),
    ),
    Plant(
        "a table used twice keeps one gradient",
        "meganeura_dsl/autodiff.py",
        "total = part if known is None else build.add(Add(), known, part)",
        "total = part",
        (f"{BLOCKS}[<silu>]",),
    ),
    Plant(
        "nothing runs",
        "runtime/meganeura_runtime/session/gpu.py",
        "number = self.device.submit(launches, self._copies, before)",
        "number = self.device.submit([], self._copies, before)",
        (GRAPHS,),
    ),
    Plant(
        "an output that is read inside is fused away",
        "runtime/meganeura_runtime/plan/store.py",
        "stored = {value.id for value in graph.roots}",
        "stored = {value.id for value in graph.updates.values()}",
        (GRAPHS, "tests/runtime/plan/test_fuse.py"),
    ),
    Plant(
        "parameters that a run updates are folded",
        "meganeura_dsl/optimize/explore.py",
        "is_known = name not in graph.updates",
        "is_known = True",
        ("tests/dsl/optimize/test_conditions.py",),
    ),
    Plant(
        "memory is given away while it is still read",
        "runtime/meganeura_runtime/plan/memory.py",
        "return self.first <= other.last and other.first <= self.last",
        "return self.first < other.last and other.first < self.last",
        ("tests/runtime/plan/test_memory.py",),
    ),
    Plant(
        "what is written to a parameter may have any shape",
        "runtime/meganeura_runtime/session/base.py",
        "array.shape != expected.shape or ",
        "",
        (f"{SESSIONS}::test_names_shapes_and_types_are_checked",),
    ),
    Plant(
        "the hash of a program forgets attributes",
        "runtime/meganeura_runtime/train/job.py",
        'line.partition("  # ")[0] for line',
        'line.partition("(")[0] for line',
        (f"{RESUME}::test_another_program_is_another_run",),
    ),
    Plant(
        "pipelines are shared by kernels that begin alike",
        "runtime/meganeura_runtime/device.py",
        "return self._pipelines[text, checked or self.checked].result()",
        "alike = (p for (t, _), p in self._pipelines.items() if t[:300] == text[:300])\n"
        "            return next(alike).result()",
        (GRAPHS,),
    ),
    Plant(
        "the clip counts one tensor",
        "meganeura_dsl/training.py",
        "reduce(lambda a, b: build.add(Add(), a, b), squares)",
        "reduce(lambda a, _: a, squares)",
        ("tests/dsl/test_training.py",),
    ),
    Plant(
        "a restored run forgets its moments",
        "runtime/meganeura_runtime/train/loop.py",
        "self.session.load(resumption.kept)",
        "first = self.job.initial_values()\n"
        "        moments = {name: each for name, each in first.items() if 'exp_avg' in name}\n"
        "        self.session.load({**resumption.kept, **moments})",
        (f"{RESUME}::test_resumed_is_uninterrupted",),
    ),
    Plant(
        "a restored run repeats its epoch",
        "runtime/meganeura_runtime/train/loop.py",
        "self.step - epoch * self.job.steps_per_epoch, self.job.steps_per_epoch",
        "0, self.job.steps_per_epoch",
        (f"{RESUME}::test_resumed_is_uninterrupted",),
    ),
    Plant(
        "a checkpoint is written in place",
        "runtime/meganeura_runtime/tensors/atomic.py",
        'partial = path.with_name(f".{path.name}.{os.getpid()}.partial")',
        "partial = path",
        (f"{RESUME}::test_a_full_disk_keeps_the_last_good_checkpoint",),
    ),
    Plant(
        "a model need not meet the `where` of its block",
        "meganeura_dsl/check/models.py",
        "if not assumed.is_contradictory:",
        "if True:",
        ("tests/test_spec.py::test_page_holds[errors/E0311.md]",),
    ),
    Plant(
        "a size of 1 is stretched",
        "meganeura_dsl/ops/rules.py",
        "    facts.require_same_shape(left.shape, right.shape,",
        "    if 1 in left.shape or 1 in right.shape:\n        return\n"
        "    facts.require_same_shape(left.shape, right.shape,",
        ("tests/dsl/ops/test_soundness.py",),
    ),
    Plant(
        "the rate of a schedule is one step late",
        "runtime/meganeura_runtime/train/feeder.py",
        "rate = learning_rate(job.settings, step, job.steps)",
        "rate = learning_rate(job.settings, max(0, step - 1), job.steps)",
        ("tests/runtime/test_train.py",),
    ),
    Plant(
        "soft labels are taken to sum to 1",
        "meganeura_dsl/ops/fused/softmax.py",
        "(softmax(logits, logits.ndim - 1) * total - labels)",
        "(softmax(logits, logits.ndim - 1) - labels)",
        ("tests/dsl/ops/fused/test_fused.py",),
    ),
    Plant(
        "a maximum gives its gradient to the first of its window",
        "meganeura_dsl/ops/pool.py",
        "+ steps[first]",
        "+ steps[0 * first]",
        (f"{BLOCKS}[<max_pool>]",),
    ),
    Plant(
        "the weight of a norm keeps the gradient of one row",
        "meganeura_dsl/ops/fused/norm.py",
        "axis=others(self.kept, x.ndim))",
        "axis=others(self.kept, x.ndim))[..., : x.shape[-1]] * 0 + (cotangent * "
        "self.standardize.evaluate(x)).reshape(-1, x.shape[-1])[0]",
        ("tests/dsl/ops/fused/test_fused.py",),
    ),
    Plant(
        "a product with two readers is computed for each",
        "meganeura_dsl/optimize/choose.py",
        "choice = extract(question.problem)",
        "choice = cheapest_trees(question.problem)",
        ("tests/dsl/optimize/test_conditions.py",),
    ),
    Plant(
        "half of a checkpoint is loaded",
        "runtime/meganeura_runtime/weights.py",
        "if mismatch is not None:\n            raise ProblemError(mismatch)\n        return {",
        "if mismatch is not None and not self.matched:\n            raise ProblemError(mismatch)\n"
        "        return {",
        ("tests/runtime/test_weights.py",),
    ),
    Plant(
        "what was timed on another adapter is used on this one",
        "runtime/meganeura_runtime/plan/choices.py",
        "if content.place != place:",
        "if content.place.compiler != place.compiler:",
        ("tests/runtime/session/test_tuned.py",),
    ),
    Plant(
        "inputs are written into memory that is still read",
        "runtime/meganeura_runtime/session/gpu.py",
        "            self._stages.submitted(stage)",
        "            self._stages.unused(stage)",
        (SESSIONS,),
    ),
    Plant(
        "attention looks ahead",
        "runtime/meganeura_runtime/kernels/attention/scores.py",
        'yield f"({key} <= {query})"',
        'yield f"({key} <= {query} + 1u)"',
        (ATTENTION,),
    ),
    Plant(
        "attention looks back one step too far",
        "runtime/meganeura_runtime/kernels/attention/scores.py",
        'yield f"({query} - {key} < vec4<u32>({self.whole.window}u))"',
        'yield f"({query} - {key} <= vec4<u32>({self.whole.window}u))"',
        (ATTENTION,),
    ),
    Plant(
        "heads that share keys look at their own",
        "runtime/meganeura_runtime/kernels/attention/scores.py",
        "head[-1] // self.whole.shared)",
        "head[-1] % (self.batch[-1] // self.whole.shared))",
        (ATTENTION,),
    ),
    Plant(
        "attention compares 64 channels of a head",
        "runtime/meganeura_runtime/kernels/attention/scores.py",
        "return width_of(self.q.type)",
        "return min(64, width_of(self.q.type))",
        (ATTENTION,),
    ),
    Plant(
        "a tile on the border reads its neighbours' pixels",
        "runtime/meganeura_runtime/kernels/ops/winograd.py",
        "return guarded(reading.make, guards, reading.at(x, index))",
        "return guarded(reading.make, guards[:1], reading.at(x, index))",
        ("tests/runtime/kernels/test_winograd.py",),
    ),
    Plant(
        "a file of tests is collected by nobody",
        "tests/properties/programs.py",
        "def program(random: Random) -> str:",
        "def test_program(random: Random) -> None:\n    assert program(random)\n\n\n"
        "def program(random: Random) -> str:",
        ("tests/test_repository.py::test_every_test_is_in_a_file_that_is_collected",),
    ),
    Plant(
        "a plan of one adapter is found for another",
        "runtime/meganeura_runtime/cache/keys.py",
        "        device.info.name,",
        '        "adapter",',
        ("tests/runtime/cache/test_compiled.py",),
    ),
    Plant(
        "the key of a compiled graph forgets attributes",
        "runtime/meganeura_runtime/cache/keys.py",
        "return OptimizedOf(format_graph(graph), mode",
        "return OptimizedOf(str([type(each.op) for each in graph.values]), mode",
        ("tests/runtime/cache/test_compiled.py",),
    ),
    Plant(
        "a square array whose columns come first is read as if rows did",
        "runtime/meganeura_runtime/data/numpy_files.py",
        "if not fortran or len(shape) < 2:",
        "if not fortran or len(set(shape)) < 2:",
        ("tests/runtime/data/test_files.py::test_unusual_arrays_are_read",),
    ),
    Plant(
        "examples held out under other names are not looked for",
        "runtime/meganeura_runtime/data/dataset.py",
        'held_out = any(f"test.{name}" in tensors for name in names)',
        'held_out = any(f"test.{name}" in tensors for name in demand.inputs)',
        ("tests/runtime/data/test_dataset.py",),
    ),
    Plant(
        "a whole input of the examples held out is that of training",
        "runtime/meganeura_runtime/data/dataset.py",
        "return tensor if shared else prefix + tensor",
        "whole = name in self.demand.whole\n"
        "        return tensor if shared else splits[0] if whole else prefix + tensor",
        ("tests/runtime/data/test_dataset.py",),
    ),
    Plant(
        "an epoch of one seed is another epoch of the next",
        "runtime/meganeura_runtime/data/batches.py",
        "np.array([seed, epoch], dtype=np.uint64)",
        "np.array([seed + epoch, 0], dtype=np.uint64)",
        ("tests/runtime/data/test_dataset.py",),
    ),
    Plant(
        "the pieces of a tensor may change places",
        "runtime/meganeura_runtime/tensors/checksums.py",
        'crc32(np.array(sums, "<u4").tobytes())',
        'crc32(np.array(sorted(sums), "<u4").tobytes())',
        ("tests/runtime/test_tensors.py::test_pieces_that_changed_places_are_damage",),
    ),
    Plant(
        "a second argument of a choice undoes the choice before it",
        "meganeura_dsl/settings/values.py",
        "choice = settings[name].value if name in settings else",
        "choice = raw[name].value if name in raw else",
        ("tests/dsl/test_settings.py",),
    ),
    Plant(
        "a lock file that was removed meanwhile is a lock",
        "runtime/meganeura_runtime/train/lock.py",
        "if _is_at(descriptor, path):",
        "if True:",
        (f"{LOCKS}::test_a_file_that_its_last_holder_just_removed_is_no_lock",),
    ),
    Plant(
        "the share of a picture is ignored where a size is given",
        "runtime/meganeura_runtime/preprocess/choices.py",
        "self.size, self.size, self.crop or CROP)",
        "self.size, self.size, CROP)",
        ("tests/runtime/preprocess/test_images.py",),
    ),
    Plant(
        "parameters that a file may lack ignore the seed",
        "meganeura/program.py",
        "model.load(weights, allowed, seed or 0)",
        "model.load(weights, allowed, 0)",
        ("tests/test_api.py::test_some_weights_are_loaded_and_the_others_start_anew",),
    ),
    Plant(
        "random weights ignore their seed",
        "meganeura_dsl/cli/run.py",
        "return initial_values(symbolic.parameters, seed)",
        "return initial_values(symbolic.parameters, FIRST_SEED)",
        ("tests/cli/test_run_command.py::test_random_weights_are_those_of_their_seed",),
    ),
    Plant(
        "a run that goes on forgets new names of tensors",
        "runtime/meganeura_runtime/train/resume.py",
        'names += ["tensors"] if "data" in names and now.tensors else []',
        "names += []",
        (f"{RESUME}::test_data_that_was_moved_may_have_other_names",),
    ),
    Plant(
        "a run that goes on heeds the first of its new settings",
        "runtime/meganeura_runtime/train/resume.py",
        "update={name: getattr(now, name) for name in names}",
        "update={name: getattr(now, name) for name in names[:1]}",
        (f"{RESUME}::test_more_epochs_may_be_asked_for",),
    ),
    Plant(
        "the speed counts the time of evaluations",
        "runtime/meganeura_runtime/train/loop.py",
        "self.clock.leave_out(perf_counter() - started)",
        "self.clock.leave_out(0 * (perf_counter() - started))",
        ("tests/runtime/test_behind.py::test_the_speed_leaves_evaluations_out",),
    ),
)
