"""Names that no layer can take in PyTorch, since every module has something under them."""

MODULE_ATTRIBUTES = frozenset(
    (
        "T_destination", "add_module", "append", "apply", "bfloat16", "bias_", "buffers",
        "call_super_init", "children", "clear", "compile", "copy", "cpu", "cuda", "double",
        "dump_patches", "eval", "extend", "extra_repr", "fromkeys", "float", "forward",
        "get", "get_buffer", "get_extra_state", "get_parameter", "get_submodule", "half",
        "insert", "ipu", "items", "keys", "load_state_dict", "modules", "mtia",
        "named_buffers", "named_children", "named_modules", "named_parameters",
        "parameters", "pop", "popitem", "register_backward_hook", "register_buffer",
        "register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook",
        "register_full_backward_pre_hook", "register_load_state_dict_post_hook",
        "register_load_state_dict_pre_hook", "register_module", "register_parameter",
        "register_state_dict_post_hook", "register_state_dict_pre_hook", "requires_grad_",
        "set_extra_state", "set_submodule", "setdefault", "share_memory", "state_dict",
        "to", "to_empty", "train", "training", "type", "update", "values", "xpu",
        "zero_grad",
    )
)  # fmt: skip
"""Attributes of `nn.Module`, `nn.ModuleList` and `nn.ModuleDict`."""
