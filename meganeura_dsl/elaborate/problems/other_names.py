"""What functions and layers of PyTorch, NumPy and Keras are called here.

A form is an expression that is proved as it stands, of the tensors x, y: [n, d], v: [n, 8 * k],
z: [n, c, d], w: [n, d, k], q: [n, heads, s, d], image: [n, 3, h, w], mask: bool[n, d] and
ids: i32[n].
"""

from collections.abc import Mapping
from types import MappingProxyType

_NAMES_OF_FORMS = {
    # shapes
    "rearrange(z, [n, c, d] -> [n, c * d])": "reshape view flatten Flatten ravel Reshape",
    "rearrange(v, [n, 8 * k] -> [n, 8, k])": "unflatten Unflatten",
    "rearrange(z, [n, c, d] -> [n, d, c])": "transpose permute swapaxes moveaxis movedim Permute",
    "rearrange(x, [n, d] -> [n, 1, d])": "unsqueeze expand_dims",
    "rearrange(x[:, :1], [n, 1] -> [n])": "squeeze",
    "expand(x, [n, d] -> [n, c, d])": "broadcast_to expand_as",
    "concat(x, y, axis=1)": "cat concatenate hstack vstack Concatenate",
    "concat(rearrange(x, [n, d] -> [n, 1, d]), rearrange(y, [n, d] -> [n, 1, d]), axis=1)": "stack",
    "x[:, :1]": "split chunk narrow slice select",
    "reverse(x, 1)": "flip",
    # products
    "z @ w": "matmul mm bmm dot einsum tensordot Dot",
    "sum(x * y, 1)": "inner vdot",
    # elements
    "minimum(maximum(x, 0), 6)": "clamp clip",
    "x ** 2": "pow power square",
    "x ** -0.5": "rsqrt",
    "1 / x": "reciprocal",
    "x + y": "add Add",
    "x - y": "sub subtract",
    "x * y": "mul multiply Multiply",
    "x / y": "div divide true_divide",
    "-x": "neg negative",
    "where(mask, 0, x)": "masked_fill",
    "stop_gradient(x)": "detach no_grad",
    # reductions
    "max(x, 1)": "amax reduce_max",
    "min(x, 1)": "amin reduce_min",
    "sum(x, 1)": "reduce_sum",
    "mean(x, 1)": "reduce_mean",
    "variance(x, 1)": "var",
    "sqrt(variance(x, 1))": "std",
    "sqrt(sum(x ** 2, 1))": "norm vector_norm",
    "argmax(-x, 1)": "argmin",
    "(x - log_softmax(x))[:, 0]": "logsumexp",
    # new tensors
    "iota(d)": "arange range",
    "one_hot(iota(d), d)": "eye",
    "zeros(shape(x))": "zeros_like empty empty_like",
    "ones(shape(x))": "ones_like",
    "full(shape(x), 0.5)": "full_like",
    "constant([1.0, 2.0])": "tensor array as_tensor",
    "random_normal([n, d])": "randn normal_ randn_like",
    "random_uniform([n, d])": "rand rand_like",
    # layers
    "x |> fc: linear(10)": "Dense dense",
    "image |> conv1: conv2d(64, 3, pad=1)": "Conv2D",
    "image |> max_pool(2)": "max_pool2d MaxPool2d MaxPool1d MaxPool2D max_pool1d",
    "image |> avg_pool(2)": "avg_pool2d AvgPool2d AvgPool1d AveragePooling2D avg_pool1d",
    "mean(image, 2, 3)": (
        "adaptive_avg_pool2d AdaptiveAvgPool2d GlobalAveragePooling2D global_avg_pool"
    ),
    "image |> bn1: batch_norm": "BatchNorm BatchNorm1d BatchNorm2d BatchNorm3d batch_norm2d",
    "x |> ln: layer_norm": "LayerNorm LayerNormalization layernorm",
    "attention(q, q, q, causal=true)": "scaled_dot_product_attention MultiheadAttention",
    "silu(x)": "swish SiLU Swish",
    "relu(x)": "ReLU",
    "hard_swish(x)": "hardswish Hardswish",
    "from recurrent import lstm": "lstm LSTM",
    "from recurrent import gru": "gru GRU",
    # losses
    "cross_entropy(x, ids)": "CrossEntropyLoss",
    "mse(x, y)": "mse_loss MSELoss",
    "l1(x, y)": "l1_loss L1Loss",
    "smooth_l1(x, y)": "smooth_l1_loss SmoothL1Loss huber_loss HuberLoss",
    "bce(x, y)": "binary_cross_entropy_with_logits BCEWithLogitsLoss",
}

OTHER_NAMES: Mapping[str, str] = MappingProxyType(
    {name: form for form, names in _NAMES_OF_FORMS.items() for name in names.split()}
)
"""The form here of each name."""
