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
RESUME = "tests/runtime/train/test_resume.py"
GRAPHS = "tests/runtime/backends/webgpu/schedule/test_random_graphs.py"
SESSIONS = "tests/runtime/backends/test_sessions.py"
ATTENTION = "tests/runtime/backends/webgpu/codegen/test_attention.py"
ARTEFACT = "tests/runtime/export/mgb/test_artefact.py"
DOOR = "tests/cli/test_door.py"
PIECES = "tests/runtime/io/tensors/test_verified_pieces.py"
LOCKS = "tests/runtime/train/test_folder_lock.py"
TRAINING = "tests/dsl/transforms/test_training_step.py"
LOOPS = "tests/dsl/transforms/test_loops.py"
COMBINED = "tests/dsl/elaborate/test_scan_combinations.py"
CACHES = "tests/runtime/backends/test_caches.py"
GENERATOR = "tests/runtime/infer/test_generator.py"
MODES = "tests/dsl/elaborate/test_modes.py"
OBJECTIVES = "tests/dsl/transforms/test_objectives.py"
NUMBERS = "tests/dsl/ir/ops/test_numbers.py"
NEAR_MISSES = "tests/dsl/transforms/egraph/test_near_misses.py"

PLANTS: tuple[Plant, ...] = (
    Plant(
        "a sum drops the coefficient after it",
        "meganeura_dsl/ir/ops/primitive/broadcast.py",
        "(build.add(Broadcast(x.type.shape, others(self.axes, x.type.rank)), cotangent),)",
        "(full(build, x.type, 1),)",
        (f"{BLOCKS}[<mse>]",),
    ),
    Plant(
        "the gradient of softmax sums the wrong axis",
        "meganeura_dsl/ir/ops/fused/softmax.py",
        "y * (cotangent - np.sum(cotangent * y, axis=self.axis, keepdims=True))",
        "y * (cotangent - np.sum(cotangent * y, axis=0, keepdims=True))",
        ("tests/dsl/ir/ops/fused/test_fused.py",),
    ),
    Plant(
        "log-softmax computes softmax",
        "stdlib_models/nn.mgn",
        "return shifted - insert_axis(log(sum(exp(shifted), axis)), axis, classes)",
        "return exp(shifted) / insert_axis(sum(exp(shifted), axis), axis, classes)",
        ("tests/stdlib_models/test_behaviour.py::test_a_layer_is_its_formula",),
    ),
    Plant(
        "cross-entropy sums over the batch",
        "stdlib_models/loss.mgn",
        "return -mean(sum(labels * log_softmax(logits), -1))",
        "return -sum(sum(labels * log_softmax(logits), -1))",
        ("tests/stdlib_models/test_behaviour.py::test_a_layer_is_its_formula",),
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
        ("tests/stdlib_models/test_behaviour.py::test_a_layer_is_its_formula",),
    ),
    Plant(
        "the slope of erf belongs to another function",
        "meganeura_dsl/ir/ops/primitive/elementwise.py",
        "full(build, x.type, DERIVATIVE_AT_ZERO)",
        "full(build, x.type, 1.128)",
        (f"{BLOCKS}[<gelu>]",),
    ),
    Plant(
        "the index of a maximum counts whatever is smaller, also behind it",
        "meganeura_dsl/ir/ops/primitive/pool.py",
        "smaller &= tap < best",
        "smaller = tap < best",
        (f"{BLOCKS}[<max_pool>]",),
    ),
    Plant(
        "a parameter without use gets a scalar gradient",
        "meganeura_dsl/transforms/autodiff.py",
        "full(build, value.type, 0) if",
        "build.add(Constant(0.0, value.type.dtype)) if",
        ("tests/dsl/transforms/test_autodiff.py",),
    ),
    Plant(
        "a spread keeps the gradient of one axis",
        "meganeura_dsl/ir/ops/primitive/broadcast.py",
        "Sum(others(self.axes, len(self.shape)))",
        "Sum(others(self.axes, len(self.shape))[:1])",
        (f"{BLOCKS}[<batch_norm>]",),
    ),
    Plant(
        "a variance is the difference of two large numbers",
        "meganeura_dsl/elaborate/builtins/builtin_math.py",
        "return tensor_arithmetic.reduce_mean("
        "frame, span, call.add(ops.Mul(), centered, centered), axes)",
        "whole = tensor_arithmetic.reduce_mean("
        "frame, span, call.add(ops.Mul(), value, value), axes)\n"
        "    return call.add(ops.Sub(), whole, call.add(ops.Mul(), mean, mean))",
        (
            "tests/stdlib_models/test_behaviour.py::test_a_variance_beside_a_large_mean_keeps_its_digits",
        ),
    ),
    Plant(
        "indices are divided through a rounded reciprocal",
        "runtime/meganeura_runtime/backends/webgpu/codegen/wgsl/emitter.py",
        'return f"{self._factor(numerator)} / {divisor}u"',
        'return f"u32(f32({self._factor(numerator)}) * (1.0 / {divisor}.0))"',
        (
            "tests/runtime/backends/webgpu/codegen/test_sizes.py",
            "tests/runtime/backends/webgpu/codegen/test_ops.py",
        ),
    ),
    Plant(
        "rotary positions all begin at zero",
        "stdlib_models/nn.mgn",
        "angle = expand(f32(iota(s) + offset), [s] -> [s, half]) * rate",
        "angle = expand(0 * f32(iota(s) + offset), [s] -> [s, half]) * rate",
        ("tests/stdlib_models/test_behaviour.py",),
    ),
    Plant(
        "a table used twice keeps one gradient",
        "meganeura_dsl/ir/ops/primitive/reverse_mode.py",
        "total = part if known is None else build.add(Add(), known, part)",
        "total = part",
        (f"{BLOCKS}[<silu>]",),
    ),
    Plant(
        "nothing runs",
        "runtime/meganeura_runtime/backends/webgpu/session.py",
        "number = self.device.submit(launches, self._copies, before, in_parts=not has_loops)",
        "number = self.device.submit([], self._copies, before, in_parts=not has_loops)",
        (GRAPHS,),
    ),
    Plant(
        "an output that is read inside is fused away",
        "runtime/meganeura_runtime/backends/webgpu/analysis/materialize.py",
        "stored = {value.id for value in graph.roots}",
        "stored = {value.id for value in graph.updates.values()}",
        (GRAPHS, "tests/runtime/backends/webgpu/schedule/test_fusion.py"),
    ),
    Plant(
        "parameters that a run updates are folded",
        "meganeura_dsl/transforms/egraph/saturate/saturate_graph.py",
        "is_known = name not in graph.updates",
        "is_known = True",
        ("tests/dsl/transforms/egraph/test_conditions.py",),
    ),
    Plant(
        "memory is given away while it is still read",
        "runtime/meganeura_runtime/backends/webgpu/memory/memory_planner.py",
        "return self.first <= other.last and other.first <= self.last",
        "return self.first < other.last and other.first < self.last",
        ("tests/runtime/backends/webgpu/memory/test_memory_planner.py",),
    ),
    Plant(
        "what is written to a parameter may have any shape",
        "runtime/meganeura_runtime/backends/base.py",
        "array.shape != expected.shape or ",
        "",
        (f"{SESSIONS}::test_names_shapes_and_types_are_checked",),
    ),
    Plant(
        "the hash of a program forgets attributes",
        "runtime/meganeura_runtime/train/recipe.py",
        "return sha256(text.encode()).hexdigest()",
        'text = "".join(line.partition("(")[0] for line in text.splitlines())\n'
        "        return sha256(text.encode()).hexdigest()",
        (f"{RESUME}::test_another_program_is_another_run",),
    ),
    Plant(
        "pipelines are shared by kernels with a common beginning",
        "runtime/meganeura_runtime/backends/webgpu/device/device.py",
        "return self._pipelines[text, checked or self.checked].result()",
        "same = (p for (t, _), p in self._pipelines.items() if t[:300] == text[:300])\n"
        "            return next(same).result()",
        (GRAPHS,),
    ),
    Plant(
        "the clip counts one tensor",
        "meganeura_dsl/transforms/training_step.py",
        "reduce(lambda a, b: build.add(Add(), a, b), squares)",
        "reduce(lambda a, _: a, squares)",
        ("tests/dsl/transforms/test_training_step.py",),
    ),
    Plant(
        "a restored run forgets its moments",
        "runtime/meganeura_runtime/train/loop.py",
        "self.session.load(resumption.persistent)",
        "first = self.job.initial_values()\n"
        "        moments = {name: each for name, each in first.items() if 'exp_avg' in name}\n"
        "        self.session.load({**resumption.persistent, **moments})",
        (f"{RESUME}::test_resumed_is_uninterrupted",),
    ),
    Plant(
        "a restored run repeats its epoch",
        "runtime/meganeura_runtime/train/loop.py",
        "in range(self.step - before, end)",
        "in range(end)",
        (f"{RESUME}::test_resumed_is_uninterrupted",),
    ),
    Plant(
        "a checkpoint is written in place",
        "runtime/meganeura_runtime/io/files/atomic_write.py",
        'partial = path.with_name(f".{path.name}.{os.getpid()}.partial")',
        "partial = path",
        (f"{RESUME}::test_a_full_disk_keeps_the_last_good_checkpoint",),
    ),
    Plant(
        "a model need not meet the `where` of its block",
        "meganeura_dsl/elaborate/declarations/models.py",
        "if not assumed.is_contradictory:",
        "if True:",
        ("tests/test_spec.py::test_page_holds[errors/E0311.md]",),
    ),
    Plant(
        "a size of 1 is stretched",
        "meganeura_dsl/ir/ops/type_rules.py",
        "    facts.require_same_shape(left.shape, right.shape,",
        "    if 1 in left.shape or 1 in right.shape:\n        return\n"
        "    facts.require_same_shape(left.shape, right.shape,",
        ("tests/dsl/ir/ops/test_soundness.py",),
    ),
    Plant(
        "the rate of a schedule is one step late",
        "runtime/meganeura_runtime/train/feeder.py",
        "job.settings.seed, step, *self.rates(step))",
        "job.settings.seed, step, *self.rates(max(0, step - 1)))",
        ("tests/runtime/train/test_train.py",),
    ),
    Plant(
        "soft labels are taken to sum to 1",
        "meganeura_dsl/ir/ops/fused/softmax.py",
        "(softmax(logits, logits.ndim - 1) * total - labels)",
        "(softmax(logits, logits.ndim - 1) - labels)",
        ("tests/dsl/ir/ops/fused/test_fused.py",),
    ),
    Plant(
        "a maximum gives its gradient to the first of its window",
        "meganeura_dsl/ir/ops/primitive/pool.py",
        "+ steps[indices]",
        "+ steps[0 * indices]",
        (f"{BLOCKS}[<max_pool>]",),
    ),
    Plant(
        "the weight of a norm keeps the gradient of one row",
        "meganeura_dsl/ir/ops/fused/norm.py",
        "axis=others(self.kept, x.ndim))",
        "axis=others(self.kept, x.ndim))[..., : x.shape[-1]] * 0 + (cotangent * "
        "self.standardize.evaluate(x)).reshape(-1, x.shape[-1])[0]",
        ("tests/dsl/ir/ops/fused/test_fused.py",),
    ),
    Plant(
        "a product with two readers is computed for each",
        "meganeura_dsl/transforms/egraph/extract/extract.py",
        "choice = extract(question.problem)",
        "choice = cheapest_trees(question.problem)",
        ("tests/dsl/transforms/egraph/test_conditions.py",),
    ),
    Plant(
        "half of a checkpoint is loaded",
        "runtime/meganeura_runtime/io/weights.py",
        "if mismatch is not None:\n            raise ProblemError(mismatch)\n        return {",
        "if mismatch is not None and not self.matched:\n            raise ProblemError(mismatch)\n"
        "        return {",
        ("tests/runtime/io/test_weights.py",),
    ),
    Plant(
        "what was timed on another adapter is used on this one",
        "runtime/meganeura_runtime/backends/webgpu/config/tuned_configs.py",
        "if content.key != key:",
        "if content.key.compiler != key.compiler:",
        ("tests/runtime/backends/test_tuned.py",),
    ),
    Plant(
        "inputs are written into memory that is still read",
        "runtime/meganeura_runtime/backends/webgpu/session.py",
        "            self._stages.submitted(stage)",
        "            self._stages.unused(stage)",
        (SESSIONS,),
    ),
    Plant(
        "attention looks ahead",
        "runtime/meganeura_runtime/backends/webgpu/codegen/attention/scores.py",
        'yield f"({key} <= {query})"',
        'yield f"({key} <= {query} + 1u)"',
        (ATTENTION,),
    ),
    Plant(
        "attention looks back one step too far",
        "runtime/meganeura_runtime/backends/webgpu/codegen/attention/scores.py",
        'yield f"({query} - {key} < vec4<u32>({self.whole.window}u))"',
        'yield f"({query} - {key} <= vec4<u32>({self.whole.window}u))"',
        (ATTENTION,),
    ),
    Plant(
        "heads that share keys look at their own",
        "runtime/meganeura_runtime/backends/webgpu/codegen/attention/scores.py",
        "head[-1] // self.whole.shared)",
        "head[-1] % (self.batch[-1] // self.whole.shared))",
        (ATTENTION,),
    ),
    Plant(
        "attention compares 64 channels of a head",
        "runtime/meganeura_runtime/backends/webgpu/codegen/attention/scores.py",
        "return width_of(self.q.type)",
        "return min(64, width_of(self.q.type))",
        (ATTENTION,),
    ),
    Plant(
        "a tile on the border reads its neighbours' pixels",
        "runtime/meganeura_runtime/backends/webgpu/codegen/lowering/winograd.py",
        "return guarded(reading.make, guards, reading.at(x, index))",
        "return guarded(reading.make, guards[:1], reading.at(x, index))",
        ("tests/runtime/backends/webgpu/codegen/test_winograd.py",),
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
        "runtime/meganeura_runtime/backends/webgpu/plan_cache.py",
        "        device.info.name,",
        '        "adapter",',
        ("tests/runtime/backends/test_compile_cache.py",),
    ),
    Plant(
        "the key of a compiled graph forgets attributes",
        "runtime/meganeura_runtime/backends/cache_keys.py",
        "return OptimizedOf(format_graph(graph), mode",
        "return OptimizedOf(str([type(each.op) for each in graph.values]), mode",
        ("tests/runtime/backends/test_compile_cache.py",),
    ),
    Plant(
        "a tensor is placed below the end of what is larger beside it",
        "runtime/meganeura_runtime/backends/webgpu/memory/memory_planner.py",
        "offset = max(offset, rounded(end, alignment))",
        "offset = rounded(end, alignment)",
        ("tests/runtime/backends/webgpu/memory/test_memory_planner.py",),
    ),
    Plant(
        "rows by number are added up in whole loops only",
        "runtime/meganeura_runtime/backends/webgpu/passes/lower_scatter.py",
        "range(0, count, most)",
        "range(0, count // most * most or count, most)",
        ("tests/runtime/backends/webgpu/passes/test_legalize.py",),
    ),
    Plant(
        "rows of workgroups are as long as an adapter allows",
        "runtime/meganeura_runtime/backends/webgpu/codegen/kernels/kernel.py",
        'number = f"group.x + group.y * {across}u" if rows > 1 else "group.x"',
        "most = self.target.limits.workgroups\n"
        '        number = f"group.x + group.y * {most}u" if rows > 1 else "group.x"',
        ("tests/runtime/backends/webgpu/codegen/test_sizes.py",),
    ),
    Plant(
        "the last of several NaN is the largest",
        "runtime/meganeura_runtime/backends/webgpu/codegen/wgsl/math_library.py",
        "return (a > b || is_nan(a)) && !is_nan(b);",
        "return a > b || is_nan(a);",
        ("tests/runtime/backends/webgpu/codegen/test_special_values.py",),
    ),
    Plant(
        "keys that fill no whole part are not attended to",
        "runtime/meganeura_runtime/backends/webgpu/codegen/attention/forward.py",
        "each = -(-frame.block.size // self._parts)",
        "each = frame.block.size // self._parts",
        (ATTENTION,),
    ),
    Plant(
        "a wrong step is told once and then forgotten",
        "runtime/meganeura_runtime/backends/index_checks.py",
        "            self._unread[0].look()\n            self._unread.popleft()",
        "            self._unread.popleft().look()",
        ("tests/runtime/backends/test_index_checks.py",),
    ),
    Plant(
        "the session of a smaller batch keeps values of its own",
        "runtime/meganeura_runtime/backends/sized_session.py",
        "other.share(self._first)",
        "other.settle()",
        ("tests/runtime/train/test_last_batch.py",),
    ),
    Plant(
        "the sum of gradients outlives its update",
        "meganeura_dsl/transforms/update_gate.py",
        "updates[path] = full(self._build, g.type, 0.0) if self._part.moves else total",
        "updates[path] = total",
        ("tests/parity/test_updates.py",),
    ),
    Plant(
        "batches of a loader that were used are fed once more",
        "runtime/meganeura_runtime/io/data/streams.py",
        "self._next += self._checked(min(self._demand.batch, first - self._next)).examples",
        "self._next = first",
        ("tests/runtime/train/test_python_data.py::test_a_run_on_data_of_python_goes_on",),
    ),
    Plant(
        "zeros are not written over what is there",
        "runtime/meganeura_runtime/backends/webgpu/session.py",
        "if name in self._missing and not content.view(np.uint32).any():",
        "if not content.view(np.uint32).any():",
        (SESSIONS,),
    ),
    Plant(
        "parameters of two buffers are read from the first",
        "runtime/meganeura_runtime/backends/webgpu/session.py",
        "            tensor.slot.buffer != group[0].slot.buffer\n            or tensor.slot.end",
        "            tensor.slot.end",
        (SESSIONS,),
    ),
    Plant(
        "kernels of others are compiled as trusted ones",
        "runtime/meganeura_runtime/backends/webgpu/device/device.py",
        "compilers.submit(self._compiled, text, checked)",
        "compilers.submit(self._compiled, text, self.checked)",
        (ARTEFACT,),
    ),
    Plant(
        "a file without a seal is sealed",
        "runtime/meganeura_runtime/export/mgb/seal.py",
        "hmac.compare_digest(expected.encode(), claimed.encode())",
        "hmac.compare_digest(expected[: len(claimed)].encode(), claimed.encode())",
        (ARTEFACT,),
    ),
    Plant(
        "the key of an optimized graph forgets the rules that are off",
        "runtime/meganeura_runtime/backends/cache_keys.py",
        "mode, rewriting.disabled, device",
        "mode, (), device",
        ("tests/runtime/backends/test_compile_cache.py",),
    ),
    Plant(
        "inputs of a compiled model may lie in one place",
        "runtime/meganeura_runtime/export/mgb/consistency.py",
        "for tensors in (plan.parameters, plan.inputs, tuple(outputs.values())):",
        "for tensors in (plan.parameters, tuple(outputs.values())):",
        (ARTEFACT,),
    ),
    Plant(
        "staged inputs that a step took are taken back",
        "runtime/meganeura_runtime/backends/webgpu/session.py",
        "        self.session = None\n        return self._stage",
        "        return self._stage",
        (SESSIONS,),
    ),
    Plant(
        "one tensor can be read after a wrong step",
        "runtime/meganeura_runtime/backends/index_checks.py",
        "        self._settle(0)\n        return super()._get(name)",
        "        return super()._get(name)",
        ("tests/runtime/backends/test_index_checks.py",),
    ),
    Plant(
        "kernels are shared by parts of tensors of any shape",
        "runtime/meganeura_runtime/backends/webgpu/schedule/kernel_cache.py",
        "numbers[memory.tensors[operand.id]], operand.type",
        "numbers[memory.tensors[operand.id]]",
        ("tests/runtime/backends/webgpu/schedule/test_kernel_cache.py",),
    ),
    Plant(
        "a parameter is overwritten before its last reader",
        "runtime/meganeura_runtime/backends/webgpu/schedule/list_scheduler.py",
        "    before[writer] |= readers\n",
        "",
        ("tests/runtime/backends/webgpu/schedule/test_updates.py",),
    ),
    Plant(
        "a step over several taps is skipped where its first tap reaches nothing",
        "runtime/meganeura_runtime/backends/webgpu/codegen/matmul/tiled_matmul.py",
        "if contraction.reached is None or steps.together != contraction.together:",
        "if contraction.reached is None:",
        ("tests/runtime/backends/webgpu/codegen/test_tiled.py",),
    ),
    Plant(
        "a square array whose columns come first is read as if rows did",
        "runtime/meganeura_runtime/io/data/numpy_files.py",
        "if not fortran or len(shape) < 2:",
        "if not fortran or len(set(shape)) < 2:",
        ("tests/runtime/io/data/test_files.py::test_unusual_arrays_are_read",),
    ),
    Plant(
        "examples held out under other names are not looked for",
        "runtime/meganeura_runtime/io/data/dataset.py",
        'held_out = any(f"test.{name}" in tensors for name in names)',
        'held_out = any(f"test.{name}" in tensors for name in demand.inputs)',
        ("tests/runtime/io/data/test_dataset.py",),
    ),
    Plant(
        "a whole input of the examples held out is that of training",
        "runtime/meganeura_runtime/io/data/dataset.py",
        "return tensor if shared else prefix + tensor",
        "whole = name in self.demand.whole\n"
        "        return tensor if shared else splits[0] if whole else prefix + tensor",
        ("tests/runtime/io/data/test_dataset.py",),
    ),
    Plant(
        "an epoch of one seed is another epoch of the next",
        "runtime/meganeura_runtime/io/data/batches.py",
        "key = np.array([seed, epoch], dtype=np.uint64)\n    return np.argsort(",
        "key = np.array([seed + epoch, 0], dtype=np.uint64)\n    return np.argsort(",
        ("tests/runtime/io/data/test_dataset.py",),
    ),
    Plant(
        "the pieces of a tensor may change places",
        "runtime/meganeura_runtime/io/tensors/checksums.py",
        'crc32(of_runs.astype("<u4").tobytes())',
        'crc32(np.sort(of_runs).astype("<u4").tobytes())',
        ("tests/runtime/io/tensors/test_tensors.py::test_pieces_that_changed_places_are_damage",),
    ),
    Plant(
        "a piece of which only a part is wanted is not compared",
        "runtime/meganeura_runtime/io/tensors/verified_pieces.py",
        "        self._compare(number, content)\n",
        "        self._is_verified[number] = True\n",
        (f"{PIECES}::test_a_bad_piece_is_named_when_it_is_read",),
    ),
    Plant(
        "the last piece in memory is taken for another's",
        "runtime/meganeura_runtime/io/tensors/verified_pieces.py",
        "if run.is_whole or held is None or held[0] != run.first:",
        "if run.is_whole or held is None:",
        (f"{PIECES}::test_what_is_filled_is_what_the_file_has",),
    ),
    Plant(
        "a second argument of a choice undoes the choice before it",
        "meganeura_dsl/settings/setting_values.py",
        "choice = settings[name].value if name in settings else",
        "choice = raw[name].value if name in raw else",
        ("tests/dsl/settings/test_run_settings.py",),
    ),
    Plant(
        "a lock file that was removed meanwhile is a lock",
        "runtime/meganeura_runtime/train/folder_lock.py",
        "if _is_at(descriptor, path):",
        "if True:",
        (f"{LOCKS}::test_a_file_that_its_last_holder_just_removed_is_no_lock",),
    ),
    Plant(
        "the share of a picture is ignored where a size is given",
        "runtime/meganeura_runtime/io/preprocess/input_transforms.py",
        "self.size, self.size, self.crop or CROP)",
        "self.size, self.size, CROP)",
        ("tests/runtime/io/preprocess/test_images.py",),
    ),
    Plant(
        "parameters that a file may lack ignore the seed",
        "meganeura/program.py",
        "model.load(_start(weights, allowed), seed or 0)",
        "model.load(_start(weights, allowed), 0)",
        ("tests/test_api.py::test_some_weights_are_loaded_and_the_others_start_anew",),
    ),
    Plant(
        "random weights ignore their seed",
        "meganeura/cli/options/model_options.py",
        "return initial_values(symbolic.parameters, seed)",
        "return initial_values(symbolic.parameters, FIRST_SEED)",
        ("tests/cli/test_run_command.py::test_random_weights_are_those_of_their_seed",),
    ),
    Plant(
        "a run that goes on forgets new names of tensors",
        "runtime/meganeura_runtime/train/resume.py",
        "names += [name for name, is_said in said.items() if is_said]",
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
        "a clip scales small gradients up to its limit",
        "meganeura_dsl/transforms/training_step.py",
        "factor = build.add(Minimum(), ratio, number(build, 1.0))",
        "factor = ratio",
        (TRAINING,),
    ),
    Plant(
        "the second moment is corrected by the decay of the first",
        "meganeura_dsl/transforms/optimizers/adam.py",
        "mean, _root(update, square, self.beta2, self.eps)",
        "mean, _root(update, square, self.beta1, self.eps)",
        (TRAINING,),
    ),
    Plant(
        "weight decay is forgotten where Nesterov looks ahead",
        "meganeura_dsl/transforms/optimizers/sgd.py",
        "update.op(Add(), decayed, update.times(self.momentum, direction))",
        "update.op(Add(), g, update.times(self.momentum, direction))",
        (TRAINING,),
    ),
    Plant(
        "an objective meets the parameters of before the step",
        "meganeura_dsl/transforms/training_step.py",
        "now = new.get(op.parameter, self.leaves[op.parameter])",
        "now = self.leaves[op.parameter]",
        (OBJECTIVES,),
    ),
    Plant(
        "a gradient flows through a move",
        "meganeura_dsl/transforms/training_step.py",
        "self._rebuilt[value.id] = self.build.add(StopGradient(), now)",
        "self._rebuilt[value.id] = now",
        (OBJECTIVES,),
    ),
    Plant(
        "states that are floats are trained",
        "meganeura_dsl/transforms/training_step.py",
        'isinstance(op, Parameter) and op.kind == "param" else None',
        'isinstance(op, Parameter) and op.kind != "frozen" and op.dtype.is_float else None',
        (TRAINING,),
    ),
    Plant(
        "the gradient of a value within the graph is freed on the way",
        "meganeura_dsl/ir/ops/primitive/reverse_mode.py",
        "given = tuple([cotangents.get(each.id) for each in results])",
        "begins = active.isdisjoint(operand.id for operand in value.operands)\n"
        "        take = cotangents.get if begins else cotangents.pop\n"
        "        given = tuple([take(each.id, None) for each in results])",
        ("tests/dsl/transforms/test_autodiff.py",),
    ),
    Plant(
        "the gradient of a kernel is that of the last samples",
        "meganeura_dsl/ir/ops/primitive/contraction.py",
        "result += np.swapaxes(cotangents, 1, 2) @ rows",
        "result[...] = np.swapaxes(cotangents, 1, 2) @ rows",
        (NUMBERS,),
    ),
    Plant(
        "a convolution's residual gradient finishes the product twice",
        "meganeura_dsl/ir/ops/fused/contraction.py",
        'plain = replace(self, epilogue="none")',
        "plain = self",
        ("tests/dsl/ir/ops/fused/test_fused.py",),
    ),
    Plant(
        "log-softmax may sum another axis than it shifts",
        "meganeura_dsl/transforms/egraph/rules/fusion.py",
        '            " (= a (vec-of axis)) (copies s kept a _)",\n'
        '            "(LogSoftmax x axis t)"',
        '            " (copies s kept a _)",\n            "(LogSoftmax x axis t)"',
        (NEAR_MISSES,),
    ),
    Plant(
        "a tensor divided by another's length is a norm",
        "meganeura_dsl/transforms/egraph/rules/fusion.py",
        "{_mean('q', '(Mul x x t)')}",
        "{_mean('q', '(Mul y2 y2 t)')}",
        (NEAR_MISSES,),
    ),
    Plant(
        "the bias of a norm may lie along any axis",
        "meganeura_dsl/transforms/egraph/rules/fusion.py",
        "(sum e (ScaledNorm x w a eps along true t) (Broadcast b _ along _))",
        "(sum e (ScaledNorm x w a eps along true t) (Broadcast b _ _ _))",
        (NEAR_MISSES,),
    ),
    Plant(
        "a kernel grows as if it were not dilated",
        "meganeura_dsl/transforms/egraph/rules/constant_folding.py",
        "(= (vec-get p1 {i}) (+ (vec-get p2 {i}) (* q{i} (vec-get d {i}))))",
        "(= (vec-get p1 {i}) (+ (vec-get p2 {i}) q{i}))",
        (NEAR_MISSES,),
    ),
    Plant(
        "two reversals undo each other whatever their axes",
        "meganeura_dsl/transforms/egraph/rules/movement.py",
        "(= e (Reverse (Reverse x a _) a _))",
        "(= e (Reverse (Reverse x a _) b _))",
        (NEAR_MISSES,),
    ),
    Plant(
        "a loop keeps its last axis only",
        "meganeura_dsl/elaborate/body/induction.py",
        "for a, b in zip(before.type.shape, after.type.shape, strict=True)",
        "for a, b in zip(before.type.shape[-1:], after.type.shape[-1:], strict=True)",
        (
            "tests/dsl/elaborate/test_prove.py::test_a_loop_that_changes_an_axis_is_left_to_each_model",
        ),
    ),
    Plant(
        "a counterexample need not satisfy the facts",
        "meganeura_dsl/symbolic/prover/counterexample.py",
        "return holds(goal, values) and all(holds(fact, values) for fact in self._group.facts)",
        "return holds(goal, values)",
        ("tests/dsl/symbolic/test_facts.py::test_what_follows",),
    ),
    Plant(
        "a rest is proved for one axis only",
        "meganeura_dsl/elaborate/typecheck/symbolic_inputs.py",
        "REST_RANKS = (1, 2)",
        "REST_RANKS = (1,)",
        ("tests/dsl/elaborate/test_prove.py::test_a_rest_of_one_axis_is_no_proof",),
    ),
    Plant(
        "of a `where` with `and` a call meets the first part",
        "meganeura_dsl/elaborate/typecheck/signatures.py",
        "for part in stated.parts if isinstance(stated, And) else (stated,):",
        "for part in stated.parts[:1] if isinstance(stated, And) else (stated,):",
        ("tests/dsl/elaborate/test_prove.py::test_a_call_meets_every_part_of_a_where",),
    ),
    Plant(
        "a proof is remembered though an import has changed",
        "meganeura_dsl/pipeline.py",
        '*((".".join(words), each.source) for words, each in self._linker.imports.items()),',
        "",
        (f"{DOOR}::test_a_proof_is_made_once_for_each_content",),
    ),
    Plant(
        "what check refused is remembered as proved",
        "meganeura_dsl/pipeline.py",
        "    if result.fine and checker.only is None:",
        "    if checker.only is None:",
        (f"{DOOR}::test_a_check_leaves_no_proof_of_what_it_refuses_or_passes_over",),
    ),
    Plant(
        "a program is proved for what its target chooses",
        "meganeura_dsl/pipeline.py",
        "checker = Checker(found.read(), loader_beside(found.path))",
        "checker = Checker(found.read(), loader_beside(found.path), found.chosen)",
        (f"{DOOR}::test_a_check_leaves_no_proof_of_what_it_refuses_or_passes_over",),
    ),
    Plant(
        "a proof in memory is found whatever the texts are",
        "meganeura_dsl/proof_cache.py",
        "content = _in_memory.get(key)",
        "content = next(iter(_in_memory.values()), None)",
        (f"{DOOR}::test_so_it_is_within_a_process_that_keeps_nothing_on_disk",),
    ),
    Plant(
        "padding adds no zero to a range",
        "meganeura_dsl/ir/interval_analysis.py",
        "return ranges[0].join(Range(0, 0))",
        "return ranges[0]",
        ("tests/dsl/ir/test_index_checks.py::test_padding_adds_zeros",),
    ),
    Plant(
        "a table takes the number that a loss leaves out",
        "meganeura_dsl/ir/index_checks.py",
        "self.exempt & other.exempt",
        "self.exempt | other.exempt",
        ("tests/dsl/ir/test_index_checks.py::test_a_table_does_not_take_what_a_loss_leaves_out",),
    ),
    Plant(
        "an exact quotient is never 0",
        "meganeura_dsl/symbolic/prover/elimination.py",
        "quotient = _quotient(known.restore(dim(name)) // modulus, 0)",
        "quotient = _quotient(known.restore(dim(name)) // modulus, 1)",
        (
            "tests/dsl/symbolic/test_facts.py::test_a_lower_bound_given_late_holds_for_earlier_facts",
        ),
    ),
    Plant(
        "a floor inside a floor keeps its own period",
        "meganeura_dsl/symbolic/prover/residue_classes.py",
        "lcm(periods[name], period * step)",
        "lcm(periods[name], period, step)",
        ("tests/dsl/symbolic/test_facts.py::test_a_floor_inside_a_floor_takes_both_divisors",),
    ),
    Plant(
        "a product that is 0 lost a factor that may be 0",
        "meganeura_dsl/symbolic/prover/entailment.py",
        "if isinstance(share, Dim) and is_at_least(as_size(atom), 1, known):",
        "if isinstance(share, Dim) and is_at_least(as_size(atom), 0, known):",
        (
            "tests/dsl/symbolic/test_facts.py::test_a_product_that_is_zero_may_be_zero_by_either_factor",
        ),
    ),
    Plant(
        "the speed counts the time of evaluations",
        "runtime/meganeura_runtime/train/loop.py",
        "self.clock.leave_out(perf_counter() - started)",
        "self.clock.leave_out(0 * (perf_counter() - started))",
        ("tests/runtime/train/test_readback.py::test_the_speed_leaves_evaluations_out",),
    ),
    Plant(
        "a kernel that gives no memory free goes before others",
        "runtime/meganeura_runtime/backends/webgpu/schedule/list_scheduler.py",
        "if last in self._ready and self._growth[last] < 0",
        "if last in self._ready and self._growth[last] <= 0",
        (
            "tests/runtime/backends/webgpu/schedule/test_list_scheduler.py::test_what_gives_no_memory_free_waits_for_its_turn",
        ),
    ),
    Plant(
        "a remainder is ordered as the quotient beside it",
        "runtime/meganeura_runtime/backends/webgpu/codegen/wgsl/affine.py",
        'return f"({_text(numerator)})%{divisor}"',
        'return f"({_text(numerator)})/{divisor}"',
        (
            "tests/runtime/backends/webgpu/codegen/test_affine.py::test_terms_have_one_order_whatever_they_are",
        ),
    ),
    Plant(
        "a file that is just as long as it may be is refused",
        "meganeura_dsl/support/limited_read.py",
        "or len(content) > most:",
        "or len(content) >= most:",
        ("tests/dsl/support/test_limited_read.py",),
    ),
    Plant(
        "a tensor given by name counts as configuration",
        "meganeura_dsl/elaborate/typecheck/signatures.py",
        "named = tuple((name, value) for name, value in self.named.items() if is_static(value))",
        "named = tuple(self.named.items())",
        (
            "tests/dsl/elaborate/test_templates.py::test_a_model_that_is_given_its_inputs_by_name_shares_its_weights",
        ),
    ),
    Plant(
        "a model made outside of a check has no budget",
        "meganeura_dsl/elaborate/declarations/models.py",
        "with at_most(CHECK), without_configuration(location):",
        "with without_configuration(location):",
        (
            "tests/dsl/elaborate/test_limits.py::test_a_model_that_is_elaborated_outside_of_a_check_has_a_budget_too",
        ),
    ),
    Plant(
        "the axes of a rest are all counted as its first",
        "meganeura_dsl/elaborate/typecheck/shape_patterns.py",
        "self._demand(wanted, size, axis + offset)",
        "self._demand(wanted, size, axis)",
        ("tests/test_spec.py::test_page_holds[errors/E0308.md]",),
    ),
    Plant(
        "an index of deep brackets ends in a traceback",
        "runtime/meganeura_runtime/io/tensors/sharded_weights.py",
        "except (ValueError, RecursionError) as error",
        "except ValueError as error",
        ("tests/runtime/io/test_weights.py::test_an_index_that_is_not_json_is_refused",),
    ),
    Plant(
        "tiles are tried whose lanes do not share evenly",
        "runtime/meganeura_runtime/backends/webgpu/tuning/search_space.py",
        "return [other for other in others if other.is_even]",
        "return list(others)",
        (
            "tests/runtime/backends/webgpu/tuning/test_autotuner.py::test_tiles_nearby_share_their_work_evenly",
        ),
    ),
    Plant(
        "a class that was to be driven out is out of reach for good",
        "meganeura_dsl/transforms/egraph/extract/extraction_search.py",
        "        self.banned.discard(number)\n        if not gone",
        "        if not gone",
        (
            "tests/dsl/transforms/egraph/test_extract.py::test_no_class_stays_out_of_reach_of_later_moves",
        ),
    ),
    Plant(
        "a cure is offered that names nothing",
        "runtime/meganeura_runtime/train/training_problems.py",
        'cure = Help(f"only these may be given anew: {names}") if names else None',
        'cure = Help(f"only these may be given anew: {names}")',
        (
            "tests/runtime/train/test_resume.py::test_nothing_is_offered_where_nothing_may_be_given_anew",
        ),
    ),
    Plant(
        "an op that a backend has not is handed to it",
        "runtime/meganeura_runtime/backends/op_support.py",
        "if type(value.op) in refused:",
        "if type(value) in refused:",
        ("tests/runtime/backends/test_op_support.py",),
    ),
    Plant(
        "`auto` prefers the CPU",
        "runtime/meganeura_runtime/backends/registry.py",
        "(WebGpuBackend(), XlaBackend(), ReferenceBackend())",
        "(ReferenceBackend(), XlaBackend(), WebGpuBackend())",
        ("tests/runtime/backends/test_registry.py",),
    ),
    Plant(
        "a scaled norm takes axes that do not exist",
        "meganeura_dsl/ir/ops/fused/norm.py",
        "        require_axes(self, self.kept, x.rank)\n"
        "        along = x.with_shape(tuple(x.shape[axis] for axis in self.kept))\n"
        "        require_same_type(self, facts, weight, along)\n"
        "        return self.standardize.infer",
        "        along = x.with_shape(tuple(x.shape[axis] for axis in self.kept))\n"
        "        require_same_type(self, facts, weight, along)\n"
        "        return self.standardize.infer",
        ("tests/dsl/ir/ops/test_shapes.py::test_ranks_and_element_types_are_refused",),
    ),
    Plant(
        "a size is zero everywhere without its coefficients",
        "meganeura_dsl/symbolic/prover/residue_classes.py",
        "term = [coefficient] * count",
        "term = [1] * count",
        (
            "tests/dsl/symbolic/test_inequalities.py::test_a_size_is_zero_everywhere_by_its_coefficients",
        ),
    ),
    Plant(
        "even and odd sizes are one class",
        "meganeura_dsl/symbolic/prover/residue_classes.py",
        "for name, period in periods.items() if period > 1}",
        "for name, period in periods.items() if period > 2}",
        ("tests/dsl/symbolic/test_inequalities.py::test_shown",),
    ),
    Plant(
        "halves are not widened where they are read",
        "runtime/meganeura_runtime/backends/webgpu/codegen/wgsl/emitter.py",
        'return f"f32({element})" if dtype is DType.F16 else element',
        "return element",
        (
            "tests/runtime/backends/webgpu/codegen/test_numbers.py::test_halves_are_computed_with_in_single_precision",
        ),
    ),
    Plant(
        "a recording ends those that are equal to it",
        "meganeura_dsl/support/phases.py",
        "if each is not found]",
        "if each != found]",
        ("tests/runtime/profiling/test_trace.py::test_a_recording_inside_of_another_ends_alone",),
    ),
    Plant(
        "single lanes are tried on a product of many terms",
        "runtime/meganeura_runtime/backends/webgpu/tuning/search_space.py",
        "if prod(whole.rows) * prod(whole.columns) * whole.count < SMALL",
        "if prod(whole.rows) * prod(whole.columns) < SMALL",
        (
            "tests/runtime/backends/webgpu/tuning/test_autotuner.py::test_single_lanes_are_not_tried_on_a_product_of_many_terms",
        ),
    ),
    Plant(
        "a configuration beyond the limits ends the search",
        "runtime/meganeura_runtime/backends/webgpu/tuning/autotuner.py",
        "except LimitError as error:\n                self._refuse(config, str(error))",
        "except MemoryError as error:\n                self._refuse(config, str(error))",
        (
            "tests/runtime/backends/webgpu/tuning/test_autotuner.py::test_a_way_beyond_the_limits_of_the_device_is_refused",
        ),
    ),
    Plant(
        "a step is compared without its updates",
        "runtime/meganeura_runtime/backends/webgpu/tuning/autotuner.py",
        "                results |= {name: session.read(name) for name in graph.updates}\n",
        "",
        (
            "tests/runtime/backends/webgpu/tuning/test_autotuner.py::test_a_step_with_other_updates_takes_for_ever",
        ),
    ),
    Plant(
        "a bound without a line is reported with one",
        "runtime/meganeura_runtime/io/data/index_problems.py",
        'needed = (Remark("needed here", self.bound.location),) if self.bound.location else ()',
        'needed = (Remark("needed here", self.bound.location),)',
        (
            "tests/runtime/io/data/test_ids.py::test_a_bound_of_no_known_line_is_reported_without_one",
        ),
    ),
    Plant(
        "a key that was cut short seals",
        "runtime/meganeura_runtime/export/mgb/seal.py",
        " if len(key) == BYTES else None",
        "",
        (
            "tests/runtime/export/mgb/test_artefact.py::test_a_key_that_was_cut_short_vouches_for_nothing",
        ),
    ),
    Plant(
        "a size of as many terms as it may have is refused",
        "meganeura_dsl/elaborate/typecheck/static_arithmetic.py",
        "if length_of(value) > MOST_TERMS:",
        "if length_of(value) >= MOST_TERMS:",
        ("tests/dsl/elaborate/test_limits.py::test_a_size_may_have_as_many_terms_as_the_limit",),
    ),
    Plant(
        "an axis of a rest has the name of a parameter",
        "meganeura_dsl/elaborate/typecheck/symbolic_inputs.py",
        "    named.update(parameter.name for parameter in block.parameters)\n",
        "",
        ("tests/dsl/elaborate/test_prove.py::test_a_rest_has_no_axis_of_the_name_of_a_parameter",),
    ),
    Plant(
        "what a condition guards is read before it is asked",
        "runtime/meganeura_runtime/backends/webgpu/codegen/wgsl/emitter.py",
        "depth = max(self._depth(node), self._floor)",
        "depth = self._depth(node)",
        (
            "tests/runtime/backends/webgpu/codegen/test_emitter.py::test_what_is_read_in_a_condition_is_read_there_only",
        ),
    ),
    Plant(
        "lanes without a term write into a row",
        "runtime/meganeura_runtime/backends/webgpu/codegen/kernels/row_reduction_kernel.py",
        "        guards = (self._row, self._run)\n",
        "        guards = (self._row,)\n",
        (
            "tests/runtime/backends/webgpu/codegen/test_rows.py::test_rows_are_overwritten_by_what_is_computed_of_them",
        ),
    ),
    Plant(
        "an operand that is held as long is taken for a cost",
        "runtime/meganeura_runtime/backends/webgpu/passes/rematerialize.py",
        "if each.last < own.last)",
        "if each.last <= own.last)",
        (
            "tests/runtime/backends/webgpu/passes/test_rematerialize.py::test_an_operand_that_is_held_as_long_costs_nothing",
        ),
    ),
    Plant(
        "who reads at the fullest moment keeps a value held",
        "runtime/meganeura_runtime/backends/webgpu/passes/rematerialize.py",
        "not any(reader.id > peak or",
        "not any(reader.id >= peak or",
        (
            "tests/runtime/backends/webgpu/passes/test_rematerialize.py::test_who_reads_when_memory_is_fullest_reads_what_is_there",
        ),
    ),
    Plant(
        "a size by configuration has no names in its other branch",
        "meganeura_dsl/elaborate/typecheck/shape_patterns.py",
        "parts = [condition, then, otherwise]",
        "parts = [condition, then]",
        ("tests/dsl/elaborate/test_prove.py::test_a_size_chosen_by_configuration_is_solved_for",),
    ),
    Plant(
        "a tensor as large as the limit is refused",
        "runtime/meganeura_runtime/backends/webgpu/schedule/compile.py",
        "        if needed > allowed:\n            yield LimitError(value, name, ",
        "        if needed >= allowed:\n            yield LimitError(value, name, ",
        (
            "tests/runtime/backends/webgpu/test_plan.py::test_a_tensor_may_be_as_large_as_the_limits",
        ),
    ),
    Plant(
        "a batched product is cut as if it were one",
        "runtime/meganeura_runtime/backends/webgpu/passes/split_k.py",
        "invocations = prod(whole.batch) * rows * columns",
        "invocations = rows * columns",
        ("tests/passes/test_golden.py::test_a_pass_makes_what_stands_in_its_file",),
    ),
    Plant(
        "rows that are no fours are read in fours",
        "runtime/meganeura_runtime/backends/webgpu/codegen/matmul/subgroup_matmul.py",
        "if shuffle.rows % VEC4 or total % VEC4:",
        "if shuffle.rows % VEC4:",
        ("tests/plans/test_golden.py::test_a_graph_has_the_plan_of_its_file",),
    ),
    Plant(
        "two choices with other alternatives are one",
        "runtime/meganeura_runtime/backends/webgpu/codegen/wgsl/expression.py",
        'key = ("choice", guard, inside.number, outside.number)',
        'key = ("choice", guard, inside.number)',
        (
            "tests/runtime/backends/webgpu/codegen/test_expression.py::test_equal_expressions_are_one_and_others_are_not",
        ),
    ),
    Plant(
        "the longer side of a picture is rounded to the nearest",
        "runtime/meganeura_runtime/io/preprocess/images.py",
        "return self.height, self.height * width // height",
        "return self.height, round(self.height * width / height)",
        ("tests/runtime/io/preprocess/test_images.py::test_a_cover_covers",),
    ),
    Plant(
        "a metric may be named as the loss",
        "meganeura_dsl/elaborate/declarations/training_blocks.py",
        "if name.text in frame.state.outputs or name.text == LOSS:",
        "if name.text in frame.state.outputs:",
        ("tests/dsl/elaborate/test_refusals.py",),
    ),
    Plant(
        "a repeated layer updates the states of no layer",
        "meganeura_dsl/elaborate/body/layer_templates.py",
        "state.updates[inner.join(relative)] = value(source)",
        "state.updates[relative] = value(place_)",
        (
            "tests/dsl/elaborate/test_templates.py::test_a_layer_with_states_is_repeated_with_its_own",
        ),
    ),
    Plant(
        "of a folder the last file counts",
        "runtime/meganeura_runtime/io/tensors/sharded_weights.py",
        "(path / name for name in FOLDER_FILES if",
        "(path / name for name in reversed(FOLDER_FILES) if",
        (
            "tests/runtime/io/test_weights.py::test_of_a_folder_the_index_counts_then_the_model_then_its_weights",
        ),
    ),
    Plant(
        "a size that has no value is 0 at least",
        "meganeura_dsl/symbolic/assumptions.py",
        "        except ZeroDivisionError:\n            return 1\n",
        "        except ZeroDivisionError:\n            return 0\n",
        ("tests/dsl/symbolic/test_facts.py::test_the_least_value_is_that_of_the_smallest_sizes",),
    ),
    Plant(
        "a tree costs what its costliest part costs",
        "meganeura_dsl/transforms/egraph/extract/extraction_problem.py",
        "below = sum(total[need] for need in problem.needs[user])",
        "below = max((total[need] for need in problem.needs[user]), default=0.0)",
        ("tests/dsl/transforms/egraph/test_extract.py::test_the_cheapest_trees_are_the_cheapest",),
    ),
    Plant(
        "data that moved loses the names of its tensors",
        "runtime/meganeura_runtime/train/resume.py",
        "names += [name for name, is_said in said.items() if is_said]",
        "names += [*said]",
        ("tests/runtime/train/test_resume.py::test_names_of_tensors_are_kept",),
    ),
    Plant(
        "a verdict is worked out each time it is asked",
        "meganeura_dsl/symbolic/assumptions.py",
        "            verdict = self._verdicts[condition] = self._judge(condition)",
        "            verdict = self._judge(condition)",
        ("tests/dsl/symbolic/test_facts.py::test_a_question_is_judged_once",),
    ),
    Plant(
        "input gradients are tried in tiles by their images",
        "meganeura_dsl/transforms/egraph/cost/winograd_candidates.py",
        "            case ConvInputGradient() as found:\n                kernel = factors[0]",
        "            case ConvInputGradient() as found:\n                kernel = factors[1]",
        (
            "tests/dsl/transforms/egraph/test_winograd.py::test_a_form_is_promising_for_each_kind_of_convolution",
        ),
    ),
    Plant(
        "of parts of attention the first and the last count",
        "runtime/meganeura_runtime/backends/webgpu/passes/fuse_attention.py",
        "folded = build.add(op, folded, value)",
        "folded = build.add(op, values[0], value)",
        ("tests/passes/test_golden.py::test_a_pass_makes_what_stands_in_its_file",),
    ),
    Plant(
        "a maximum in parts is padded with zeros",
        "runtime/meganeura_runtime/backends/webgpu/passes/split_reduction.py",
        "if parts * length != shape[axis] and isinstance(op, ReduceMax):",
        "if parts * length < shape[axis] and isinstance(op, ReduceMax):",
        ("tests/runtime/backends/webgpu/passes/test_split_reduction.py::test_parts_are_the_whole",),
    ),
    Plant(
        "a repeated vector is read across its terms",
        "runtime/meganeura_runtime/backends/webgpu/codegen/matmul/shared_memory_tile.py",
        "return along > 0 and (along <= down or down == 0)",
        "return along > 0 and along <= down",
        ("tests/plans/test_golden.py::test_a_graph_has_the_plan_of_its_file",),
    ),
    Plant(
        "a proof that lacks a field ends in a traceback",
        "meganeura_dsl/proof_cache.py",
        "except (ValueError, TypeError, LookupError, AttributeError):",
        "except (ValueError, TypeError, AttributeError):",
        ("tests/dsl/test_proof_cache.py::test_an_entry_that_makes_no_sense_is_none",),
    ),
    Plant(
        "halves have to agree as floats do",
        "runtime/meganeura_runtime/backends/webgpu/tuning/autotuner.py",
        "if off <= TOLERANCES[found.itemsize]:",
        "if off <= TOLERANCES[4]:",
        (
            "tests/runtime/backends/webgpu/tuning/test_search.py::test_a_way_is_right_up_to_what_its_type_resolves",
        ),
    ),
    Plant(
        "a reason of several lines is shown whole",
        "runtime/meganeura_runtime/io/data/numpy_files.py",
        'return str(error).partition("\\n")[0] or type(error).__name__',
        "return str(error) or type(error).__name__",
        ("tests/runtime/io/data/test_files.py::test_a_reason_is_one_line_and_never_empty",),
    ),
    Plant(
        "a configuration of deep brackets ends in a traceback",
        "runtime/meganeura_runtime/io/preprocess/preprocessor_config.py",
        "    except (ValueError, RecursionError) as error:",
        "    except ValueError as error:",
        (
            "tests/runtime/io/preprocess/test_images.py::test_a_file_that_is_no_configuration_is_told",
        ),
    ),
    Plant(
        "an argument that is given already is offered",
        "meganeura_dsl/elaborate/typecheck/signatures.py",
        "left = parameters[len(arguments.positional) :]",
        "left = parameters",
        ("tests/dsl/elaborate/test_fixes.py::test_a_guess_is_no_fix",),
    ),
    Plant(
        "the order of axes is told the wrong way round",
        "runtime/meganeura_runtime/io/weights.py",
        "hint = transposed(tensor.shape, wanted)",
        "hint = transposed(wanted, tensor.shape)",
        (
            "tests/runtime/io/test_weights.py::test_a_shape_in_another_order_is_told_with_the_order_to_bring_it_into",
        ),
    ),
    Plant(
        "a lock keeps digits of its last holder",
        "runtime/meganeura_runtime/train/folder_lock.py",
        "                os.ftruncate(descriptor, 0)\n",
        "",
        (
            "tests/runtime/train/test_folder_lock.py::test_a_lock_has_the_number_of_its_process_alone",
        ),
    ),
    Plant(
        "a sum that goes backwards is left turned round",
        "meganeura_dsl/ir/ops/primitive/cumulative.py",
        "return np.flip(found, self.axis) if self.backward else found",
        "return found",
        ("tests/dsl/ir/ops/test_ops.py::test_the_gradient_is_the_slope",),
    ),
    Plant(
        "a value of a round is not known to differ from round to round",
        "meganeura_dsl/ir/ops/primitive/loop_region.py",
        "        self._leaves.add(leaf_value.id)\n",
        "",
        ("tests/dsl/transforms/test_loops.py::test_a_scan_is_its_rounds_and_so_are_its_gradients",),
    ),
    Plant(
        "a window of attention shows one token more",
        "meganeura_dsl/ir/ops/fused/attention_scores.py",
        "return hidden | (back >= self.window) if self.window else hidden",
        "return hidden | (back > self.window) if self.window else hidden",
        ("tests/dsl/ir/ops/fused/test_fused.py::test_the_value_is_that_of_the_expansion",),
    ),
    Plant(
        "the bias of a fused product stands one axis too early",
        "meganeura_dsl/ir/ops/fused/contraction.py",
        "behind = product.ndim - 1 - self.bias_axis(product.ndim)",
        "behind = product.ndim - self.bias_axis(product.ndim)",
        (
            "tests/dsl/ir/ops/fused/test_expand.py::test_a_model_is_the_same_original_fused_and_spelled_out",
        ),
    ),
    Plant(
        "what is not 0 may be 0 with the other sign",
        "meganeura_dsl/symbolic/prover/entailment.py",
        "if simple in known.nonzero or -simple in known.nonzero:",
        "if simple in known.nonzero:",
        ("tests/dsl/symbolic/test_facts.py::test_what_follows",),
    ),
    Plant(
        "what is at most 0 and at least 0 is not known to be 0",
        "meganeura_dsl/symbolic/prover/assume.py",
        '    if is_at_least(-size, 0, known):\n        return known, [Compare("==", size, 0)]\n',
        "",
        ("tests/dsl/symbolic/test_verdicts.py::test_the_prover_says_what_it_said",),
    ),
    Plant(
        "a missing fact has a remainder that no division leaves",
        "meganeura_dsl/symbolic/prover/missing_facts.py",
        "0, floor.denominator - 1):",
        "0, floor.denominator):",
        ("tests/dsl/symbolic/test_examples.py::test_hints",),
    ),
    Plant(
        "an equality bounds from one side only",
        "meganeura_dsl/symbolic/prover/solver_state.py",
        "both = (*self.nonnegative, *smooth, *(-size for size in smooth))",
        "both = (*self.nonnegative, *smooth)",
        ("tests/dsl/symbolic/test_facts.py::test_what_follows",),
    ),
    Plant(
        "loops that are one collect by place instead of by number",
        "meganeura_dsl/transforms/simplify_loops.py",
        'outputs |= {f"{COLLECTED}{n}": values[number] for n, (number, _) in enumerate(wanted)}',
        'outputs |= {f"{COLLECTED}{n}": values[n] for n, (number, _) in enumerate(wanted)}',
        ("tests/dsl/transforms/test_loops.py::test_a_scan_is_its_rounds_and_so_are_its_gradients",),
    ),
    Plant(
        "a chain of rewrites counts at its end as well",
        "meganeura_dsl/transforms/egraph/provenance.py",
        "under if len(under) > 1 else frozenset((number,))",
        "under if under else frozenset((number,))",
        ("tests/plans/test_models.py::test_the_standard_models_become_what_they_became",),
    ),
    Plant(
        "a loop forwards and one backwards are one",
        "meganeura_dsl/transforms/simplify_loops.py",
        "return operands, op.body.computation, following, op.rounds, op.sliced, op.backward",
        "return operands, op.body.computation, following, op.rounds, op.sliced",
        ("tests/dsl/transforms/test_loops.py::test_a_loop_and_the_same_one_backwards_stay_two",),
    ),
    Plant(
        "the first value that is stored is computed",
        "meganeura_dsl/transforms/egraph/extract/extract.py",
        "stored = frozenset(range(known, len(needs)))",
        "stored = frozenset(range(known + 1, len(needs)))",
        ("tests/dsl/transforms/egraph/test_conditions.py::test_equal_geometry_is_merged",),
    ),
    Plant(
        "what is of another shape is read as a row of the group",
        "runtime/meganeura_runtime/backends/webgpu/schedule/fusion.py",
        "if group.rows is None or not group.holds(elements(value)):",
        "if group.rows is None:",
        (
            "tests/runtime/backends/webgpu/schedule/test_rewritten.py::test_a_training_step_is_planned_no_worse",
        ),
    ),
    Plant(
        "a maximum in parts skips the first of what is left",
        "runtime/meganeura_runtime/backends/webgpu/passes/split_reduction.py",
        "ends = ((0, whole), (whole, size))",
        "ends = ((0, whole), (whole + 1, size))",
        (
            "tests/runtime/backends/webgpu/passes/test_split_reduction.py::test_no_element_is_left_out",
        ),
    ),
    Plant(
        "a root is as cheap as a sum",
        "runtime/meganeura_runtime/backends/webgpu/analysis/recompute_cost.py",
        "                return self.root\n",
        "                return self.simple\n",
        ("tests/plans/test_models.py::test_the_standard_models_become_what_they_became",),
    ),
    Plant(
        "a broadcast of two axes is moved to channels last as that of one",
        "runtime/meganeura_runtime/backends/webgpu/passes/channels_last.py",
        "case Broadcast(shape=shape, axes=axes) if len(axes) < 2:",
        "case Broadcast(shape=shape, axes=axes) if len(axes) < 3:",
        (
            "tests/runtime/backends/webgpu/passes/test_channels_last.py::test_a_broadcast_of_any_axes_meets_channels_last",
        ),
    ),
    Plant(
        "a merge searches one step too few",
        "runtime/meganeura_runtime/backends/webgpu/codegen/lowering/prefix.py",
        "for _ in range(self.op.run.bit_length()):",
        "for _ in range((self.op.run - 1).bit_length()):",
        (
            "tests/runtime/backends/webgpu/codegen/test_ops.py::test_a_kernel_computes_the_reference",
        ),
    ),
    Plant(
        "a gradient of weights with channels last is written from the first axis on",
        "runtime/meganeura_runtime/backends/webgpu/codegen/lowering/conv.py",
        "found = whole.coordinate(at, row, _first(column))\n"
        "        return OutputCoordinate(_last(found.index, 1), found.guards)",
        "found = whole.coordinate(at, row, _first(column))\n"
        "        return OutputCoordinate(_last(found.index, 0), found.guards)",
        ("tests/plans/test_cases.py::test_every_case_is_planned_as_it_was",),
    ),
    Plant(
        "a block opens before what is moved out of it",
        "runtime/meganeura_runtime/backends/webgpu/codegen/wgsl/emitter.py",
        "        self._scopes.append(_Scope())\n"
        "        yield\n"
        "        inner = self._scopes.pop()\n"
        '        self.line(f"{header} {{")\n',
        '        self.line(f"{header} {{")\n'
        "        self._scopes.append(_Scope())\n"
        "        yield\n"
        "        inner = self._scopes.pop()\n",
        ("tests/plans/test_golden.py::test_a_graph_has_the_plan_of_its_file",),
    ),
    Plant(
        "rows looked up in batches lose the axes of the batch",
        "runtime/meganeura_runtime/backends/webgpu/codegen/lowering/gather_scatter.py",
        "after = axis + ids.type.rank - batch",
        "after = axis + ids.type.rank",
        (
            "tests/runtime/backends/webgpu/codegen/test_ops.py::test_a_kernel_computes_the_reference",
        ),
    ),
    Plant(
        "a note of an import is kept as one of the file itself",
        "meganeura_dsl/proof_cache.py",
        "return sources.index(span.source), span.start, span.end",
        "return 0, span.start, span.end",
        ("tests/dsl/test_proof_cache.py::test_notes_are_found_as_they_were_kept",),
    ),
    Plant(
        "a contraction that occurs often is tuned as if once",
        "runtime/meganeura_runtime/backends/webgpu/tuning/search_space.py",
        "found[whole.name] = replace(known, count=known.count + 1)",
        "found[whole.name] = known",
        (
            "tests/runtime/backends/webgpu/tuning/test_autotuner.py::test_a_contraction_that_occurs_again_is_one_subject",
        ),
    ),
    Plant(
        "an entry with a place of no value ends in a traceback",
        "runtime/meganeura_runtime/backends/compile_cache.py",
        "except (ValidationError, GraphTextError, IndexError):",
        "except (ValidationError, GraphTextError):",
        (
            "tests/runtime/backends/test_compile_cache.py::test_a_graph_that_cannot_be_read_is_made_anew",
        ),
    ),
    Plant(
        "bytes after the end of an IDX file are no mistake",
        "runtime/meganeura_runtime/io/data/idx_files.py",
        "    if claimed != available:",
        "    if claimed > available:",
        ("tests/runtime/io/data/test_idx.py::test_a_hostile_file_is_refused",),
    ),
    Plant(
        "metadata that is no text is left out",
        "runtime/meganeura_runtime/io/tensors/safetensors_file.py",
        "    if len(texts) < len(record):\n"
        '        raise InvalidTensorFileError("its metadata holds something '
        'other than texts")\n',
        "",
        ("tests/runtime/io/tensors/test_tensors.py::test_a_hostile_file_is_refused",),
    ),
    Plant(
        "of two folders that are held out the first counts",
        "runtime/meganeura_runtime/io/data/class_folders.py",
        "    if len(held_out) > 1:",
        "    if len(held_out) > 2:",
        (
            "tests/runtime/io/data/test_class_folders.py::test_two_folders_that_could_be_held_out_are_refused",
        ),
    ),
    Plant(
        "settings of images are ignored where files are sounds",
        "runtime/meganeura_runtime/io/data/readers.py",
        '        self._require(path, not of_images, f"`{next(iter(of_images), '
        "'')}` is about images\")\n",
        "",
        ("tests/runtime/io/data/test_class_folders.py::test_a_sound_is_a_spectrogram",),
    ),
    Plant(
        "a tensor that is fed whole may have any first size",
        "runtime/meganeura_runtime/io/data/dataset.py",
        "if not fits or (tensor.shape[0] % rows if rows else tensor.shape != shape):",
        "if not fits or (rows and tensor.shape[0] % rows):",
        (
            "tests/runtime/io/data/test_dataset.py::test_a_whole_input_has_the_shape_it_is_declared_with",
        ),
    ),
    Plant(
        "the sum of an empty list is refused",
        "meganeura_dsl/elaborate/builtins/builtin_math.py",
        'if len(numbers) != len(values) or (not numbers and call.name != "sum"):',
        "if len(numbers) != len(values) or not numbers:",
        (
            "tests/dsl/elaborate/test_trained_weights.py::test_standard_models_can_run_all_they_train",
        ),
    ),
    Plant(
        "a return inside of an if goes on behind it",
        "meganeura_dsl/elaborate/body/statements.py",
        "                return self.execute(then if self.choose(condition, "
        "frame) else otherwise, frame)",
        "                self.execute(then if self.choose(condition, frame) else otherwise, frame)",
        ("tests/dsl/elaborate/test_prove.py::test_a_loop_may_have_no_round",),
    ),
    Plant(
        "the highest metric is the lowest",
        "meganeura_dsl/settings/best_metric.py",
        'return BestMetric(name, which == "highest")',
        'return BestMetric(name, which == "lowest")',
        ("tests/runtime/train/test_train.py::test_the_best_weights_are_kept",),
    ),
    Plant(
        "a list may have length 0",
        "meganeura_dsl/elaborate/typecheck/config_kinds.py",
        "not 0 < length <= LONGEST_LIST",
        "not 0 <= length <= LONGEST_LIST",
        ("tests/test_spec.py::test_page_holds[errors/E0220.md]",),
    ),
    Plant(
        "as many names as are listed are followed by 0 more",
        "runtime/meganeura_runtime/io/weights.py",
        '        more = f" and {len(self.names) - LISTED} more" if '
        'len(self.names) > LISTED else ""\n'
        "        return self.message(\n"
        '            f"no tensor that is',
        '        more = f" and {len(self.names) - LISTED} more" if '
        'len(self.names) >= LISTED else ""\n'
        "        return self.message(\n"
        '            f"no tensor that is',
        (
            "tests/runtime/io/test_weights.py::test_of_many_names_the_first_are_listed_and_the_others_counted",
        ),
    ),
    Plant(
        "the last step of a run is not logged",
        "runtime/meganeura_runtime/train/loop.py",
        "at_once = every > 0 and self.step in (1, job.steps)",
        "at_once = every > 0 and self.step == 1",
        ("tests/runtime/train/test_train.py::test_metrics_are_read_at_log_points_only",),
    ),
    Plant(
        "a process takes its part of a full batch of the last one",
        "runtime/meganeura_runtime/train/feeder.py",
        "taken = self._job.dataset.train.take_own(batch, own, is_again=is_again)",
        "taken = self._job.dataset.train.take_own("
        "batch, self._own(self._job.batch), is_again=is_again)",
        (
            "tests/runtime/train/test_last_batch.py::test_processes_feed_each_batch_in_parts_that_make_it_up",
        ),
    ),
    Plant(
        "a named folder is not made inside of one that is not there",
        "runtime/meganeura_runtime/train/run_folder.py",
        "        path.mkdir(parents=True, exist_ok=True)\n"
        "    with locked(path):\n"
        "        if _is_occupied(path):",
        "        path.mkdir(exist_ok=True)\n    with locked(path):\n        if _is_occupied(path):",
        ("tests/runtime/train/test_train.py::test_a_named_folder_must_be_empty",),
    ),
    Plant(
        "what a step is fed takes no memory on xla",
        "runtime/meganeura_runtime/backends/xla/device.py",
        "placed = {**program.persistent, **program.fed}",
        "placed = program.persistent",
        ("tests/cli/test_fit_command.py::test_xla_says_what_it_has_laid_out",),
    ),
    Plant(
        "weights are declared before the first round",
        "runtime/meganeura_runtime/importing/onnx/structure.py",
        'is_constant = isinstance(each.code, Declared) and each.code.kind != "param"',
        "is_constant = isinstance(each.code, Declared)",
        (
            "tests/runtime/importing/onnx/test_imported_models.py::test_layers_that_repeat_are_a_loop",
        ),
    ),
    Plant(
        "weights that a file lacks begin the same for every seed",
        "meganeura/model.py",
        "self.values = {**initial_values(anew, seed), **found.read()}",
        "self.values = {**initial_values(anew, 0), **found.read()}",
        ("tests/test_api.py::test_some_weights_are_loaded_and_the_others_start_anew",),
    ),
    Plant(
        "the slope of an absolute value is 1 at 0",
        "meganeura_dsl/ir/ops/primitive/elementwise.py",
        'positive = build.add(Compare("gt"), x, zero)',
        'positive = build.add(Compare("ge"), x, zero)',
        ("tests/dsl/ir/ops/test_forms.py::test_every_op_has_the_forms_it_had",),
    ),
    Plant(
        "flags that are known are tried both ways",
        "meganeura_dsl/symbolic/prover/counterexample.py",
        "[[known[name]] if name in known else [False, True] for name",
        "[[False, True] for name",
        ("tests/dsl/symbolic/test_facts.py::test_flags_that_are_known_leave_room_for_the_others",),
    ),
    Plant(
        "a round combines one term too few",
        "runtime/meganeura_runtime/backends/webgpu/ops/prefix.py",
        "        for number in range(1, self.terms):\n"
        "            by = number * self.distance\n"
        "            total[by:] = UFUNCS",
        "        for number in range(1, self.terms - 1):\n"
        "            by = number * self.distance\n"
        "            total[by:] = UFUNCS",
        (
            "tests/runtime/backends/webgpu/passes/test_legalize.py::test_every_sample_means_what_it_is_lowered_to",
        ),
    ),
    Plant(
        "a phase is told to the first who listens",
        "meganeura_dsl/support/phases.py",
        "    for each in _listeners:\n        each.append(ended)",
        "    for each in _listeners[:1]:\n        each.append(ended)",
        ("tests/runtime/profiling/test_trace.py::test_a_recording_inside_of_another_ends_alone",),
    ),
    Plant(
        "an entry that was not written stays in part",
        "meganeura_dsl/support/disk_cache.py",
        "    finally:\n        partial.unlink(missing_ok=True)",
        "    finally:\n        pass",
        (
            "tests/dsl/support/test_disk_cache.py::test_what_could_not_be_written_whole_leaves_nothing",
        ),
    ),
    Plant(
        "inputs that are whole count as examples",
        "runtime/meganeura_runtime/io/data/python_data.py",
        "counted = [name for name in names if name not in demand.whole]",
        "counted = list(names)",
        (
            "tests/runtime/train/test_python_data.py::test_an_input_that_is_whole_does_not_say_what_an_item_is",
        ),
    ),
    Plant(
        "each of several runs has all points of a page",
        "runtime/meganeura_runtime/train/report/page_data.py",
        "points = POINTS // max(1, len(summaries))",
        "points = POINTS",
        ("tests/runtime/train/test_report.py::test_several_runs_share_the_points_of_a_page",),
    ),
    Plant(
        "a tensor that is new is no change of the data",
        "runtime/meganeura_runtime/train/data_fingerprint.py",
        "for name in {**old, **new}:",
        "for name in old:",
        (
            "tests/runtime/train/test_resume.py::test_examples_held_out_that_were_not_there_are_other_data",
        ),
    ),
    Plant(
        "a loop that reads no slices is exported without its round",
        "runtime/meganeura_runtime/export/onnx/ops/loops.py",
        "if not slices or _is_read(leaves[ROUND], op):",
        "if _is_read(leaves[ROUND], op):",
        (
            "tests/runtime/export/onnx/test_onnx_models.py::test_a_loop_that_reads_no_slice_has_its_rounds",
        ),
    ),
    Plant(
        "the cotangent of what a round carries and collects is the last one",
        "meganeura_dsl/ir/ops/primitive/loop_gradient.py",
        "seeds[value] = cotangent if known is None else self.build.add(Add(), known, cotangent)",
        "seeds[value] = cotangent",
        (LOOPS,),
    ),
    Plant(
        "a carry that another carry depends on has no cotangent",
        "meganeura_dsl/ir/ops/primitive/loop_gradient.py",
        "                active.add(index)\n                waiting.append(op.next[index])",
        "                active.add(index)",
        (LOOPS,),
    ),
    Plant(
        "the gradient of a scan goes back to front, whatever the scan does",
        "meganeura_dsl/ir/ops/primitive/loop_gradient.py",
        "self.backward = not op.backward",
        "self.backward = True",
        (LOOPS,),
    ),
    Plant(
        "what a round began with is read from the other end",
        "meganeura_dsl/ir/ops/primitive/loop_gradient.py",
        "Sliced(stacks[value], 0, self.backward)",
        "Sliced(stacks[value], 0, not self.backward)",
        (LOOPS,),
    ),
    Plant(
        "the gradient of a weight is that of the last round",
        "meganeura_dsl/ir/ops/primitive/loop_gradient.py",
        "self._carry(leaf, full(self.build, term.type, 0), added)",
        "self._carry(leaf, full(self.build, term.type, 0), term)",
        (LOOPS,),
    ),
    Plant(
        "slices that are read the other way are not turned round",
        "meganeura_dsl/ir/ops/primitive/loop_region.py",
        "            if each.backward is backward\n",
        "            if each.backward is backward or True\n",
        (LOOPS,),
    ),
    Plant(
        "rounds that go backwards count from one too many",
        "meganeura_dsl/ir/ops/primitive/loop_region.py",
        "Constant(self.rounds - 1, DType.I32)",
        "Constant(self.rounds, DType.I32)",
        (COMBINED,),
    ),
    Plant(
        "slices that are collected the other way are not turned round",
        "meganeura_dsl/elaborate/body/scans.py",
        "return frame.add(statement.span, ops.Reverse((axis,)), stack) if turned else stack",
        "return stack",
        (LOOPS,),
    ),
    Plant(
        "the cotangent of what is behind the last round is dropped",
        "meganeura_dsl/ir/ops/primitive/loop_gradient.py",
        "self._carry(leaf, self.ends[index] or zero, parts[index] or zero)",
        "self._carry(leaf, zero, parts[index] or zero)",
        (LOOPS,),
    ),
    Plant(
        "two scans in opposite directions are one",
        "meganeura_dsl/transforms/simplify_loops.py",
        "return operands, op.body.computation, following, op.rounds, op.sliced, op.backward",
        "return operands, op.body.computation, following, op.rounds, op.sliced",
        (LOOPS,),
    ),
    Plant(
        "a carry that only another carry reads is pruned",
        "meganeura_dsl/transforms/simplify_loops.py",
        "        carried |= more\n",
        "        carried |= more\n        break\n",
        (LOOPS,),
    ),
    Plant(
        "a part that was replaced keeps its gradient",
        "meganeura_dsl/ir/ops/primitive/dynamic.py",
        "build.add(DynamicUpdate(), cotangent, none, *starts),",
        "cotangent,",
        ("tests/dsl/ir/ops/test_ops.py",),
    ),
    Plant(
        "a cache that is given out is overwritten by the next call",
        "meganeura_dsl/ir/interpreter.py",
        "        and value.operands[0].id not in given\n        and value.id not in given\n",
        "",
        (CACHES,),
    ),
    Plant(
        "what a run updates is held for all runs",
        "meganeura_dsl/transforms/hoist.py",
        'if op.name in graph.updates or op.kind == "cache" else',
        'if op.kind == "cache" else',
        ("tests/dsl/transforms/test_hoist.py",),
    ),
    Plant(
        "a sequence begins with the carry of the one before",
        "runtime/meganeura_runtime/infer/generator.py",
        "        self._first.reset()\n",
        "",
        (GENERATOR,),
    ),
    Plant(
        "all steps of a prompt stand at its beginning",
        "runtime/meganeura_runtime/infer/generator.py",
        "            position += size\n        assert",
        "        assert",
        (GENERATOR,),
    ),
    Plant(
        "what is drawn depends on the steps in which the prompt was read",
        "runtime/meganeura_runtime/infer/generator.py",
        "np.array([sampling.seed, position + tokens], np.uint32)",
        "np.array([sampling.seed, position], np.uint32)",
        (GENERATOR,),
    ),
    Plant(
        "a reset clears one cache",
        "runtime/meganeura_runtime/backends/base.py",
        "            self._clear(self._caches)\n",
        "            self._clear(self._caches[:1])\n",
        (CACHES,),
    ),
    Plant(
        "an objective moves what others are to move",
        "meganeura_dsl/transforms/training_step.py",
        "            for name in objective.moves\n",
        "            for name in _trained(forward)\n",
        (OBJECTIVES,),
    ),
    Plant(
        "of several intervals the first that matches counts",
        "meganeura_dsl/transforms/training_step.py",
        "return matching[-1] if matching else 1",
        "return matching[0] if matching else 1",
        (OBJECTIVES,),
    ),
    Plant(
        "the states of an optimizer change at steps that move nothing",
        "meganeura_dsl/transforms/optimizers/update.py",
        "self._updates[state.op.name] = self.when_due(new, state)",
        "self._updates[state.op.name] = new",
        (OBJECTIVES,),
    ),
    Plant(
        "`over` reaches all names that begin with those of its path",
        "meganeura_dsl/elaborate/declarations/training_blocks.py",
        'found = [name for name in trained if name == path or name.startswith(f"{path}.")]',
        "found = [name for name in trained if name.startswith(path)]",
        (OBJECTIVES,),
    ),
    Plant(
        "the loss of a step is that of its last objective",
        "meganeura_dsl/elaborate/declarations/training_blocks.py",
        "state.outputs[LOSS] = frame.add(statement.span, ops.Add(), *terms)",
        "state.outputs[LOSS] = [*terms][1]",
        (OBJECTIVES,),
    ),
    Plant(
        "what follows a frozen part is frozen",
        "meganeura_dsl/elaborate/body/modes.py",
        "        state.training, state.frozen = before",
        "        state.training = before[0]",
        (MODES,),
    ),
    Plant(
        "only the first objective's gradients are finite or not",
        "meganeura_dsl/transforms/update_gate.py",
        "return reduce(self._both, self._finite) if self._finite else None",
        "return self._finite[0] if self._finite else None",
        (OBJECTIVES,),
    ),
    Plant(
        "a layer that was checked at one position is checked for all",
        "meganeura_dsl/elaborate/body/layer_summaries.py",
        "return None if key is None else (key, whole)",
        "return None if key is None else (key, len(whole))",
        ("tests/dsl/elaborate/test_summaries.py",),
    ),
    Plant(
        "the values of a summarized layer count for nothing",
        "meganeura_dsl/elaborate/body/layer_summaries.py",
        "    build.skip(summary.values)",
        "    build.skip(0)",
        ("tests/dsl/elaborate/test_summaries.py",),
    ),
    Plant(
        "a gradient reaches no weight of a summarized layer",
        "meganeura_dsl/elaborate/body/layer_summaries.py",
        "operands = (*[tensor for tensor in tensors if tensor is not None], *leaves)",
        "operands = tuple(tensor for tensor in tensors if tensor is not None)",
        ("tests/dsl/elaborate/test_summaries.py",),
    ),
    Plant(
        "what holds for most numbers is taken to hold where a divisor is 0",
        "meganeura_dsl/elaborate/body/expressions.py",
        'if node.operator in ("//", "%") and not _may_divide(right, frame):',
        "if False:",
        ("tests/dsl/elaborate/test_summaries.py",),
    ),
    Plant(
        "a layer is replayed with the weights of the one it was recorded from",
        "meganeura_dsl/elaborate/body/layer_templates.py",
        "        if not _are_numbers(each for each in read if each.id not in numbers):",
        "        if read is None:",
        ("tests/dsl/elaborate/test_templates.py",),
    ),
    Plant(
        "an average follows the weights of before the step",
        "meganeura_dsl/elaborate/body/layer_copies.py",
        "frame.names.update((name, state.current(full)) for name, full in of.items())",
        "frame.names.update((name, state.leaves[full]) for name, full in of.items())",
        ("tests/dsl/elaborate/test_layer_copies.py",),
    ),
    Plant(
        "a run that went on has the seconds of its second part",
        "runtime/meganeura_runtime/train/report/report_writer.py",
        "seconds = self._before + perf_counter() - self._began",
        "seconds = perf_counter() - self._began",
        ("tests/runtime/train/test_report.py::test_a_stopped_run_says_so_and_goes_on_to_the_end",),
    ),
    Plant(
        "the last part of a split is as long as the others",
        "runtime/meganeura_runtime/importing/onnx/ops/movement.py",
        "sizes.append(size - each * (count - 1))",
        "sizes.append(each)",
        ("tests/runtime/importing/onnx/test_imported_ops.py::test_an_op_is_what_onnx_runtime_has",),
    ),
    Plant(
        "a rule that was chosen led there as well",
        "meganeura_dsl/transforms/egraph/provenance.py",
        "            if (rule, number) not in final:\n"
        "                yield self._note(rule, number)",
        "            yield self._note(rule, number)",
        ("tests/cli/test_optimizer_report.py::test_a_rule_that_was_chosen_did_not_lead_there",),
    ),
    Plant(
        "parts of a product are counted down",
        "runtime/meganeura_runtime/backends/webgpu/passes/split_k.py",
        "-(-_iterations(whole.terms, tiling.terms) // MOST_PRODUCTS)",
        "_iterations(whole.terms, tiling.terms) // MOST_PRODUCTS",
        (
            "tests/runtime/backends/webgpu/passes/test_split_k.py::test_no_loop_of_a_kernel_is_longer_than_drivers_allow",
        ),
    ),
    Plant(
        "what is read for the last time is no longer alive",
        "runtime/meganeura_runtime/backends/webgpu/schedule/compile.py",
        "if one.first <= at <= one.last]",
        "if one.first <= at < one.last]",
        (
            "tests/runtime/backends/webgpu/memory/test_memory_planner.py::test_all_that_is_alive_at_the_fullest_moment_has_a_role",
        ),
    ),
    Plant(
        "a form for training is found as that for inference",
        "runtime/meganeura_runtime/backends/compile_cache.py",
        "inference_of(graph, rewriting, mode).key",
        "inference_of(graph, rewriting).key",
        (
            "tests/runtime/backends/test_compile_cache.py::test_a_form_for_training_is_not_found_as_that_for_inference",
        ),
    ),
    Plant(
        "an argument too many is ignored",
        "meganeura_dsl/elaborate/typecheck/signatures.py",
        "    elif fault is None and positional:\n"
        "        fault = f\"got {counted(len(positional), 'argument')} too many\"\n",
        "",
        ("tests/test_spec.py::test_page_holds[errors/E0202.md]",),
    ),
    Plant(
        "what stands beside several results is not returned",
        "meganeura_dsl/elaborate/body/statements.py",
        "                and len(values) == 1\n",
        "",
        ("tests/dsl/elaborate/test_refusals.py::test_a_program_is_refused_in_words",),
    ),
    Plant(
        "the index of a loop is the size that a caller calls so",
        "meganeura_dsl/elaborate/body/induction.py",
        "        inner = inner.parent\n    while name in used:",
        "        inner = None\n    while name in used:",
        (
            "tests/dsl/elaborate/test_refusals.py::test_the_index_of_a_loop_is_no_size_that_a_caller_calls_so",
        ),
    ),
    Plant(
        "logits are those of the defaults",
        "meganeura_dsl/pipeline.py",
        "return generation.elaborate_logits(program.module, node, config, step)",
        "return generation.elaborate_logits(program.module, node, {}, step)",
        (
            "tests/runtime/export/mgb/test_generation_form.py::test_its_steps_and_draws_give_what_generate_gives",
        ),
    ),
    Plant(
        "a schedule follows what is shown",
        "runtime/meganeura_runtime/train/job.py",
        "known = tuple(name for name, value in measured.items() if value.type.rank == 0)",
        "known = tuple(measured)",
        ("tests/runtime/train/test_shown.py::test_what_is_shown_is_nothing_a_schedule_follows",),
    ),
    Plant(
        "a trainer that goes on forgets that nothing got better",
        "meganeura/trainer.py",
        "            stale=self._stale,\n",
        "",
        ("tests/test_trainer.py::test_a_trainer_keeps_a_folder",),
    ),
    Plant(
        "epochs and a size that is called steps are two lengths",
        "meganeura_dsl/settings/run_settings.py",
        'if "steps" in written and "epochs" in written and "steps" not in free_dims:',
        'if "steps" in written and "epochs" in written:',
        ("tests/dsl/settings/test_combined.py::test_settings_give_what_they_gave",),
    ),
    Plant(
        "the first of several paths counts",
        "meganeura_dsl/settings/parameter_groups.py",
        "found[matching[-1] if matching else None].append(each)",
        "found[matching[0] if matching else None].append(each)",
        ("tests/dsl/settings/test_combined.py::test_settings_give_what_they_gave",),
    ),
    Plant(
        "a line that chose another optimizer is blamed",
        "meganeura_dsl/settings/parameter_groups.py",
        "case Setting(value=Invocation(name=name), span=span) if name == word:",
        "case Setting(value=Invocation(name=name), span=span) :",
        ("tests/dsl/settings/test_combined.py::test_settings_give_what_they_gave",),
    ),
    Plant(
        "a batch of a short epoch has the size of another",
        "runtime/meganeura_runtime/train/job.py",
        "position = step % self.steps_per_pass",
        "position = step % self.steps_per_epoch",
        ("tests/runtime/train/test_fed_runs.py::test_runs_are_fed_what_they_were_fed",),
    ),
    Plant(
        "a schedule may follow what is never measured",
        "runtime/meganeura_runtime/train/job.py",
        "measured = dict[str, Value]() if dataset.test is None else recipe.evaluation({}).outputs",
        "measured = dict[str, Value]() if dataset.train is None else recipe.evaluation({}).outputs",
        ("tests/runtime/train/test_fed_runs.py::test_runs_are_fed_what_they_were_fed",),
    ),
    Plant(
        "held-out examples take the weights of others",
        "runtime/meganeura_runtime/io/data/splits.py",
        "weights = None if self.weights is None else self.weights[numbers]",
        "weights = None if self.weights is None else self.weights[: len(numbers)]",
        ("tests/runtime/train/test_fed_runs.py::test_runs_are_fed_what_they_were_fed",),
    ),
    Plant(
        "two means are for three colors",
        "runtime/meganeura_runtime/io/data/readers.py",
        "if shown_size(steps) == (height, width) and lengths <= {1, colors}:",
        "if shown_size(steps) == (height, width) and True:",
        (
            "tests/runtime/io/data/test_class_folders.py::test_there_is_one_mean_for_all_colors_or_one_for_each",
        ),
    ),
    Plant(
        "a batch of another size is the last one again",
        "runtime/meganeura_runtime/io/data/streams.py",
        "if self._last is not None and self._last[0] == _run(examples):",
        "if self._last is not None and self._last[0][0] == _run(examples)[0]:",
        (
            "tests/runtime/io/data/test_python_items.py::test_a_stream_gives_what_is_asked_for_or_says_why_not",
        ),
    ),
    Plant(
        "a pass of one batch is begun once",
        "runtime/meganeura_runtime/io/data/streams.py",
        "        if first == 0:\n",
        "        if first == 0 and not (self._last and self._last[0] == (first, end)):\n",
        ("tests/runtime/train/test_python_data.py::test_a_pass_of_one_batch_reads_it_each_time",),
    ),
    Plant(
        "a line of just the width is broken",
        "meganeura_dsl/syntax/formatter/line_breaking.py",
        "if column > WIDTH and best is not None:",
        "if column >= WIDTH and best is not None:",
        ("tests/dsl/syntax/test_formatted.py::test_programs_are_formatted_as_they_were",),
    ),
    Plant(
        "a default behind a kind has no spaces",
        "meganeura_dsl/syntax/formatter/expressions.py",
        'self.write("=" if node.kind is None else " = ")',
        'self.write("=")',
        ("tests/dsl/syntax/test_formatted.py::test_programs_are_formatted_as_they_were",),
    ),
    Plant(
        "single rows are not tried on a CPU",
        "runtime/meganeura_runtime/backends/webgpu/tuning/search_space.py",
        "yield replace(default, rows=None)",
        "yield default",
        (
            "tests/runtime/backends/webgpu/tuning/test_ways.py::test_the_ways_are_those_that_were_tried",
        ),
    ),
    Plant(
        "numbers that are NaN are near enough",
        "runtime/meganeura_runtime/backends/webgpu/tuning/autotuner.py",
        "if off <= TOLERANCES[found.itemsize]:",
        "if not off > TOLERANCES[found.itemsize]:",
        (
            "tests/runtime/backends/webgpu/tuning/test_autotuner.py::test_numbers_are_compared_with_those_of_the_first_way",
        ),
    ),
    Plant(
        "the only way is not timed",
        "runtime/meganeura_runtime/backends/webgpu/tuning/autotuner.py",
        "for start in range(0, max(len(plans), 0 if is_timed else 1), together):",
        "for start in range(0, max(len(plans), 0), together):",
        (
            "tests/runtime/backends/webgpu/tuning/test_autotuner.py::test_numbers_are_compared_with_those_of_the_first_way",
        ),
    ),
    Plant(
        "a chain of two ends is counted at its head",
        "meganeura_dsl/transforms/egraph/provenance.py",
        "known = heads[rule, number] = under if len(under) > 1 else frozenset((number,))",
        "known = heads[rule, number] = under or frozenset((number,))",
        ("tests/dsl/transforms/egraph/test_reports.py::test_what_is_reported_is_what_was",),
    ),
    Plant(
        "a new value has the place of what reads it",
        "meganeura_dsl/transforms/egraph/extract/decode.py",
        "origin = self.origins.get(number, inherited)",
        "origin = inherited",
        ("tests/dsl/transforms/egraph/test_reports.py::test_what_is_reported_is_what_was",),
    ),
    Plant(
        "the only training is taken for a model that it does not apply",
        "meganeura_dsl/pipeline.py",
        "if name is None and known and model in self.models:",
        "if name is None and len(known) > 1 and model in self.models:",
        ("tests/dsl/test_targets.py::test_a_model_is_trained_by_what_applies_it",),
    ),
    Plant(
        "of two standard files the first is taken",
        "meganeura_dsl/pipeline.py",
        "if len(holders) > 1:",
        "if len(holders) > 2:",
        ("tests/dsl/test_targets.py::test_a_standard_name_of_several_files_is_said_with_its_file",),
    ),
    Plant(
        "types of other files stand in lines of this one",
        "meganeura_dsl/pipeline.py",
        "if binding.span.source is self.module.source:",
        "if True:",
        ("tests/dsl/test_targets.py::test_types_are_those_of_the_file_itself",),
    ),
    Plant(
        "a loop may change the type of elements",
        "meganeura_dsl/elaborate/body/induction.py",
        "after.type.dtype is before.type.dtype",
        "True",
        ("tests/dsl/elaborate/test_prove.py::test_what_holds_at_the_edges",),
    ),
    Plant(
        "a return inside of an if leaves a scan",
        "meganeura_dsl/elaborate/body/scans.py",
        '    """Refuse statements that stand in no round."""\n    for node in walk(statement):\n',
        '    """Refuse statements that stand in no round."""\n    for node in statement.body:\n',
        ("tests/dsl/elaborate/test_prove.py::test_what_holds_at_the_edges",),
    ),
    Plant(
        "a roll by the whole length slices nothing",
        "meganeura_dsl/elaborate/builtins/builtin_indexing.py",
        'inside = (Compare(">", start, 0), Compare("<", start, size))',
        'inside = (Compare(">=", start, 0), Compare("<", start, size))',
        ("tests/dsl/elaborate/test_prove.py::test_what_holds_at_the_edges",),
    ),
    Plant(
        "a seal breaks those that were made before",
        "runtime/meganeura_runtime/export/mgb/seal.py",
        "built = os.open(folder / FILE, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)",
        "built = os.open(folder / FILE, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)",
        ("tests/runtime/export/mgb/test_artefact.py::test_a_seal_stays_good_when_others_are_made",),
    ),
    Plant(
        "a file that is replaced by a pipe is read",
        "meganeura_dsl/support/regular_files.py",
        "_require_regular(os.fstat(descriptor), path)",
        "pass",
        (
            "tests/dsl/support/test_limited_read.py::test_a_file_that_is_replaced_by_a_pipe_meanwhile_is_refused",
        ),
    ),
    Plant(
        "a saved trainer forgets its best value",
        "meganeura/trainer.py",
        "best_value=self._best,",
        "best_value=None,",
        ("tests/test_trainer.py::test_the_best_so_far_is_saved_and_gone_on_with",),
    ),
    Plant(
        "two hosts train for themselves",
        "runtime/meganeura_runtime/train/recipe.py",
        "if hosts > 1:",
        "if hosts > 2:",
        (
            "tests/runtime/train/test_train.py::test_hosts_train_together_on_so_many_devices_as_is_said",
        ),
    ),
    Plant(
        "the rounds that are left over count from the start",
        "meganeura_dsl/transforms/checkpoint_loops.py",
        "base = build.add(Constant(concrete(op.rounds) - count, DType.I32))",
        "base = build.add(Constant(count, DType.I32))",
        (
            "tests/dsl/transforms/test_checkpoint_loops.py::test_segments_are_the_rounds_and_so_are_their_gradients",
        ),
    ),
    Plant(
        "amsgrad keeps the last square",
        "meganeura_dsl/transforms/optimizers/adam.py",
        "            square = update.op(Maximum(), largest, square)\n"
        "            update.store(largest, square)\n",
        "            update.store(largest, square)\n"
        "            square = update.op(Maximum(), largest, square)\n",
        ("tests/dsl/transforms/test_optimizer_formulas.py::test_steps_are_those_of_the_formula",),
    ),
    Plant(
        "what is copied at the end dies with its last reader",
        "runtime/meganeura_runtime/backends/webgpu/schedule/compile.py",
        "value.id: len(kernels)\n",
        "value.id: last.get(value.id, len(kernels))\n",
        (
            "tests/runtime/backends/webgpu/memory/test_memory_planner.py::test_what_is_copied_at_the_end_is_alive_until_then",
        ),
    ),
    Plant(
        "kernels of several rows of workgroups are merged",
        "runtime/meganeura_runtime/backends/webgpu/codegen/kernels/merged_kernel.py",
        "all(kernel.workgroups[1:] == (1, 1) for kernel in together)",
        "True",
        (
            "tests/runtime/backends/webgpu/schedule/test_horizontal_fusion.py::test_workgroups_in_several_rows_are_a_dispatch_of_their_own",
        ),
    ),
    Plant(
        "the not of a condition on a round is forgotten",
        "meganeura_dsl/elaborate/typecheck/round_numbers.py",
        "span, ops.Where(), _truth(frame, span, part), *_both(frame, span)[::-1]",
        "span, ops.Where(), _truth(frame, span, part), *_both(frame, span)",
        ("tests/dsl/elaborate/test_scan_combinations.py::test_what_a_round_may_do",),
    ),
    Plant(
        "a difference from what is not given has no sign",
        "meganeura_dsl/elaborate/typecheck/tensor_arithmetic.py",
        "isinstance(op, ops.Add) and neutral.get(a.id)",
        "isinstance(op, ops.Add | ops.Sub) and neutral.get(a.id)",
        (
            "tests/dsl/elaborate/test_optional_inputs.py::test_what_is_not_given_is_zero_on_either_side",
        ),
    ),
    Plant(
        "a shard holds what its index does not list",
        "runtime/meganeura_runtime/io/tensors/sharded_weights.py",
        "if promised.get(name) != shard:",
        "if promised.get(name, shard) != shard:",
        ("tests/runtime/io/test_weights.py::test_an_index_that_lies_is_refused",),
    ),
    Plant(
        "a loader that drops its last batch is counted with it",
        "runtime/meganeura_runtime/io/data/streams.py",
        'if is_loader and not getattr(data, "drop_last", True):',
        "if is_loader:",
        (
            "tests/runtime/train/test_python_data.py::test_a_last_batch_is_trained_on_where_that_is_asked",
        ),
    ),
    Plant(
        "epochs asked for anew do not replace steps",
        "runtime/meganeura_runtime/train/resume.py",
        'if "epochs" in names:',
        'if "epochs" in ():',
        (
            "tests/runtime/train/test_resume.py::test_epochs_take_the_place_of_the_steps_a_run_began_with",
        ),
    ),
    Plant(
        "an ellipsis is an axis too few",
        "meganeura_dsl/elaborate/body/tensor_parts.py",
        "* (rank - others)",
        "* (rank - others - 1)",
        ("tests/dsl/elaborate/test_parts.py::test_an_ellipsis_is_as_many_whole_axes_as_fit",),
    ),
    Plant(
        "rounds behind the end of a loop are run",
        "runtime/meganeura_runtime/backends/webgpu/schedule/compile.py",
        "(*flags, loop.going)",
        "flags",
        (
            "tests/runtime/backends/webgpu/schedule/test_loops.py::test_no_kernel_of_a_round_behind_the_stop_does_anything",
        ),
    ),
    Plant(
        "a size is solved for in a quotient",
        "meganeura_dsl/elaborate/typecheck/symbolic_inputs.py",
        "if name in variables_of(share) | variables_of(rest):",
        "if name in variables_of(share):",
        (
            "tests/dsl/elaborate/test_prove.py::test_a_size_from_which_no_name_follows_is_refused_where_it_is_declared",
        ),
    ),
    Plant(
        "a run that goes on forgets what evaluations did to the rates of paths",
        "runtime/meganeura_runtime/io/checkpoint.py",
        "self.reductions.get(glob, Reduction())",
        "Reduction()",
        ("tests/runtime/train/test_resume.py::test_a_plateau_is_remembered",),
    ),
)
