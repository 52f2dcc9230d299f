"""The two tiers of the suite: `make test` runs every test, `make test-fast` the fast tier.

A test is in the fast tier unless `FULL` names it, its file or its folder, or it needs an adapter.
A new test is therefore fast until somebody measures that it takes a second or more.
"""

FULL = (
    "benchmarks",
    "cli/test_cache_command.py",
    "cli/test_compiled.py",
    "cli/test_deploy.py",
    "cli/test_deployed_repvgg.py",
    "cli/test_documents.py::test_a_command_shown_succeeds",
    "cli/test_documents.py::test_a_program_shown_runs",
    "cli/test_main.py::test_a_reader_that_leaves_is_no_error",
    "cli/test_main.py::test_what_a_file_is_called_does_not_reach_the_terminal_raw",
    "cli/test_optimizer_options.py",
    "cli/test_optimizer_report.py",
    "cli/test_profile_command.py",
    "cli/test_readme.py",
    "cli/test_run_command.py::test_a_wrong_command_line_exits_with_2",
    "cli/test_train_command.py",
    "cli/test_tune_command.py",
    "dsl/diagnostics/test_terminal.py::test_nothing_raw_reaches_the_terminal",
    "dsl/elaborate/test_limits.py::test_the_largest_standard_models_are_far_from_the_limit",
    "dsl/elaborate/test_limits.py::test_the_same_text_takes_the_same_steps",
    "dsl/elaborate/test_standard_models.py::test_parameters_are_the_checkpoint_s",
    "dsl/elaborate/test_standard_models.py::test_repvgg_b0_has_one_convolution_for_each_branch",
    "dsl/elaborate/test_templates.py::test_templates_change_no_graph",
    "dsl/gradcheck/test_faults.py",
    "dsl/gradcheck/test_standard_blocks.py::test_blocks",
    "dsl/gradcheck/test_standard_blocks.py::test_layers",
    "dsl/gradcheck/test_standard_blocks.py::test_small_models",
    "dsl/ir/ops/fused/test_expand.py::test_a_model_is_the_same_original_fused_and_spelled_out",
    "dsl/ir/ops/test_ops.py::test_the_gradient_has_a_gradient",
    "dsl/ir/test_index_checks.py::test_standard_models_need_no_check",
    "dsl/symbolic/test_against_z3.py",
    "dsl/symbolic/test_by_force.py",
    "dsl/symbolic/test_domain.py::test_what_is_chosen_satisfies_the_facts",
    "dsl/symbolic/test_fuzz.py",
    "dsl/syntax/test_format.py::test_any_layout",
    "dsl/syntax/test_format.py::test_any_tree",
    "dsl/syntax/test_mutations.py",
    "dsl/testing/test_strategies.py",
    "dsl/transforms/egraph/test_extract.py",
    "dsl/transforms/egraph/test_kernels.py",
    "dsl/transforms/egraph/test_models.py",
    "dsl/transforms/egraph/test_overflow.py::test_numbers_stay_numbers",
    "dsl/transforms/egraph/test_rules.py::test_a_rewrite_is_found_and_true",
    "dsl/transforms/test_autodiff.py::test_the_walk_is_linear_in_the_graph",
    "dsl/transforms/test_optimized_training.py",
    "fuzz/test_readers.py::test_a_gzip_bomb_is_read_no_further_than_its_header_claims",
    "fuzz/test_readers.py::test_hostile_programs",
    "fuzz/test_readers.py::test_hostile_safetensors",
    "parity",
    "properties",
    "runtime/backends/test_compile_cache.py",
    "runtime/backends/test_inference.py",
    "runtime/backends/webgpu/passes/test_rematerialize.py",
    "runtime/backends/webgpu/schedule/test_kernel_cache.py",
    "runtime/backends/webgpu/schedule/test_random_graphs.py",
    "runtime/backends/webgpu/schedule/test_rewritten.py",
    "runtime/export/deployment/test_deploy.py::test_a_repvgg_is_plain_and_named_as_timm_names_it",
    "runtime/export/deployment/test_deploy.py::test_a_resnet_has_no_norms_left",
    "runtime/train",
    "stdlib_models/test_trainings.py",
    "test_end_to_end.py",
)
"""Folders, files and tests in tests/ that are in the full tier alone."""


def is_full(name: str) -> bool:
    """Whether a folder, a file or a test, named as in `FULL`, is in the full tier alone."""
    test = name.split("[", maxsplit=1)[0]
    return any(test == each or test.startswith((f"{each}/", f"{each}::")) for each in FULL)
