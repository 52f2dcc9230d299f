"""Answers in words to names of PyTorch, NumPy and Keras: the counterpart, and the differences."""

from collections.abc import Mapping

_DATA_SIZES = (
    "how many there are depends on the numbers, and no size may: keep all, and choose by"
    " `where(mask, x, 0)`"
)
_NO_ALGEBRA = (
    "there is no such decomposition: compute it outside, and give it as input; `linalg` has"
    " `cholesky`, `inverse`, `solve` and `log_abs_det`"
)
GRADIENT = (
    "`grad(scalar, x)` is the gradient of a scalar by a name that it was computed from, and may be"
    " differentiated again; `minimize` gives those by the weights to the optimizer"
)
ACCURACY = (
    "a metric is an expression, and the share that is right is the mean of a comparison,"
    " `mean(argmax(logits, 1) == label)`; of two classes, `mean((logits > 0) == (label > 0.5))`"
)
_WEIGHTS = (
    "`weights(net)` is all trained parameters of a layer as one value, which `grad` may be taken"
    " by, and `x |> net(weights=w)` applies it with others"
)
_NOT_MAPPED = (
    "examples are an axis: what is computed of each is written for `[n, ...]`, and `grad` of a sum"
    " over the examples has that of each in its row"
)
_NO_PRINT = (
    '`x |> show("name")` is x, and runs and trainings show what it is;'
    " `meganeura run --show h` shows a name without it"
)
_NAN = (
    "a device may take NaN for any number: `not_finite` under `run:` says what a run does with it"
)

_AUGMENT = (
    "pictures are flipped, moved, erased and coloured by blocks of `augment`, as"
    " `from augment import random_flip`; nothing turns or scales them, and `crop` of"
    " `images(...)` cuts them"
)

WORDS: Mapping[str, str] = {
    _AUGMENT: (
        "random_rotation random_crop random_resized_crop color_jitter RandomRotation"
        " RandomResizedCrop RandomCrop RandomHorizontalFlip RandomVerticalFlip ColorJitter"
        " random_horizontal_flip random_vertical_flip"
    ),
    _NO_PRINT: "print breakpoint pdb log_dict",
    ACCURACY: (
        "accuracy accuracy_score top1 top1_accuracy multiclass_accuracy binary_accuracy"
        " categorical_accuracy sparse_categorical_accuracy"
    ),
    GRADIENT: (
        "autograd backward value_and_grad gradient jacobian jacrev jacfwd jvp vjp hessian"
        " requires_grad requires_grad_"
    ),
    "an optimizer is a setting of `run:`, such as `optimizer = adamw(lr=1e-3)`, and `minimize` says"
    " what it moves": "zero_grad",
    _WEIGHTS: (
        "functional_call parameters_to_vector vector_to_parameters named_parameters"
        " trainable_variables"
    ),
    _NOT_MAPPED: "vmap",
    _DATA_SIZES: "nonzero argwhere unique masked_select boolean_mask compress",
    "how many boxes are left depends on the numbers, and no size may: return all boxes and scores,"
    " and choose among them in Python": "nms batched_nms",
    _NO_ALGEBRA: "pinv lstsq qr svd svdvals eig eigh eigvals eigvalsh lu matrix_exp matrix_rank",
    "`cholesky(a)`, `inverse(a)`, `solve(a, b)`, `solve_lower(a, b)` and `log_abs_det(a)` are in"
    " `linalg`: `from linalg import solve`": (
        "inverse inv solve det slogdet logdet cholesky cholesky_solve triangular_solve"
    ),
    "`fft`, `ifft`, `rfft`, `irfft` and `long_conv` are in `spectra`, `from spectra import rfft`;"
    " a complex tensor is two, its real and its imaginary parts": (
        "fft ifft rfft irfft fft2 ifft2 fftn rfft2 irfft2 stft istft complex"
    ),
    _NAN: "isnan isinf isfinite nan_to_num nansum nanmean isreal",
    "`atan`, `atan2(y, x)`, `asin` and `acos` are in `special`: `from special import atan`": (
        "atan2 arctan2 atan arctan asin arcsin acos arccos"
    ),
    "it is in `special`: `from special import erfinv`": "erfinv",
    "it is in `special`: `from special import searchsorted`": "searchsorted",
    "`lgamma` and `digamma` are in `special`: `from special import lgamma`": (
        "lgamma gammaln digamma"
    ),
    "of the gamma function there are `lgamma` and `digamma`, in `special`": "polygamma",
    "windows of pixels are `unfold(3)(x)`, with `from vision import unfold`; those that do not"
    " overlap are split off by `rearrange`: `[n, c, h * p, w * p] -> [n, h * w, c * p * p]`": (
        "unfold Unfold im2col as_strided"
    ),
    "it is `pixel_shuffle(2)(x)`, with `from vision import pixel_shuffle`": (
        "pixel_shuffle PixelShuffle"
    ),
    "it is `pixel_unshuffle(2)(x)`, with `from vision import pixel_unshuffle`": (
        "pixel_unshuffle PixelUnshuffle"
    ),
    "it is `sample_at()(x, row, column)`, whose places are counted in pixels, with"
    " `from vision import sample_at`": "grid_sample affine_grid",
    "it is `roi_align(7, 7)(x, box, image)`, with `from vision import roi_align`": (
        "roi_align RoIAlign"
    ),
    "it is `reflect_pad(1)(x)`, with `from vision import reflect_pad`": "ReflectionPad2d",
    "of two updates at one place the sum is `scatter_add`, the largest `scatter_max`; one place is"
    " set by `x[:, 0] = y`": "scatter scatter_ index_copy index_put put_along_axis index_fill",
    "`gather` takes slices by ids, `where` chooses element by element": "choose",
    "the first results of a list are written, `q, k, v = ...`; lists of layers are loops:"
    " `for i in 0..depth:` with the label `layers[i]`": "ModuleList ModuleDict ParameterList",
    "weights are `param weight: [c, d] = zeros` in a block, and running values `state`": (
        "Parameter register_buffer register_parameter Variable add_weight"
    ),
    "a block is a module: `block Net(width)(x: [n, d]) -> [n, width]:`": "Module Model Layer",
    "a recurrence is a `scan t in 0..s:` over the axis; `lstm` and `gru` are in `recurrent`": (
        "RNN SimpleRNN RNNCell LSTMCell GRUCell rnn fori_loop while_loop"
    ),
    "devices are chosen outside: `device` under `run:`, or `--device wgpu`, which is any GPU": (
        "cuda cpu to_device device to"
    ),
    "elements become another type by its name: `f32(x)`, `f16(x)`, `i32(x)`, `u32(x)`,"
    " `bool(x)`": "astype type cast type_as as_type",
    "tensors are f32 or f16; there is no double precision": "double float64 f64",
    'of halves there is f16 here; `precision = "bf16"` under `run:` computes products in it': (
        "bfloat16 bf16"
    ),
    "what may not happen is refused by `where`, for all sizes, before anything runs": (
        "assert_ check_shape verify"
    ),
    "tensors begin as inputs: `x: [n, d]` in a signature is what an array is given to": (
        "from_numpy from_dlpack placeholder Input InputLayer"
    ),
    "an element of the result is the number itself: write the value": "item tolist numpy",
    "the number of elements is `product(shape(x))`": "numel",
    "the number of axes is `rank(x)`": "ndim dim",
    "a transformer is written of `attention`, `layer_norm` and `linear`, as in the model `gpt2`": (
        "Transformer TransformerEncoder TransformerEncoderLayer TransformerDecoder"
        " TransformerDecoderLayer"
    ),
    "two results are two functions: `variance(x, 1)`, `mean(x, 1)`": "var_mean std_mean aminmax",
    "nothing drops to the value at which SELU saturates: `dropout` drops to 0": (
        "AlphaDropout alpha_dropout FeatureAlphaDropout feature_alpha_dropout"
    ),
    "volumes are dropped by nothing here: `dropout` drops elements, `dropout2d` images": (
        "Dropout3d dropout3d SpatialDropout3D"
    ),
    "channels of sequences are dropped by `dropout` of one element for each,"
    " `x * insert_axis(ones([n, c]) |> dropout(0.1), 2, s)`": (
        "Dropout1d dropout1d SpatialDropout1D"
    ),
    "sizes follow from what a layer is given: `linear(10)`, `conv2d(64, 3)`, `batch_norm`": (
        "LazyLinear LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d"
        " LazyConvTranspose3d LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyInstanceNorm1d"
        " LazyInstanceNorm2d LazyInstanceNorm3d"
    ),
    "it pads with 0; another border is a part that `concat` puts beside the tensor": (
        "ReflectionPad1d ReflectionPad3d ReplicationPad1d ReplicationPad2d"
        " ReplicationPad3d CircularPad1d CircularPad2d CircularPad3d"
    ),
    "transposed convolutions are of one or two axes": (
        "ConvTranspose3d conv_transpose3d Conv3DTranspose"
    ),
    "where a maximum stood is not kept: `upsample` repeats each element": (
        "MaxUnpool1d MaxUnpool2d MaxUnpool3d max_unpool1d max_unpool2d max_unpool3d"
    ),
    "a mask is an input, `mask: bool[n, s]`, and `attention` and the losses take it": "Masking",
    "a layer is applied to an axis behind others as it stands: `x |> fc: linear(8)`": (
        "TimeDistributed"
    ),
    "a formula is a `def f(x) = ...`, or stands where it is needed": "Lambda Activation",
    "noise is added by `x + 0.1 * random_normal([n, d])`, if `training`": "GaussianNoise",
    "a class for each row is drawn of logits by `sample`": "multinomial categorical",
    "weights that are trained are quantized by `meganeura quantize`, and nothing else is": (
        "quantize_per_tensor quantize_per_channel dequantize"
    ),
    "there is no in-place form: `x = relu(x)`": (
        "relu_ add_ mul_ sub_ div_ clamp_ zero_ fill_ copy_"
    ),
    "it is `ctc(logits, label, length, label_length)`, with `from sequence import ctc`; logits are"
    " [n, s, c], without the softmax": "ctc_loss CTCLoss",
    "no loss of this kind is in the library": (
        "triplet_margin_loss TripletMarginLoss cosine_embedding_loss"
        " CosineEmbeddingLoss margin_ranking_loss MarginRankingLoss"
    ),
    "it is `bce(logits, target)`, which takes the sigmoid itself": (
        "bce_with_logits bce_logits bce_loss BCEWithLogits sigmoid_cross_entropy"
    ),
    "it is `cross_entropy(logits, label)`, which takes the softmax itself": (
        "ce_loss softmax_cross_entropy cross_entropy_with_logits cross_entropy_loss"
    ),
    "of probabilities there is no loss: give the logits, without the sigmoid, to `bce`": (
        "binary_cross_entropy BCELoss BinaryCrossentropy binary_crossentropy"
    ),
    "of probabilities there is no loss: give the logits, without the softmax, to `cross_entropy`": (
        "categorical_crossentropy CategoricalCrossentropy sparse_categorical_crossentropy"
        " SparseCategoricalCrossentropy"
    ),
    "keys, queries and values are layers of their own, `q = x |> q: linear(d)`, and `attention`"
    " takes what `rearrange` splits into heads": "MultiHeadAttention",
    "each slice is written by itself: `x[:, 0]`, `x[:, 1]`": "unbind unstack",
    "a learned slope is `param slope: [d] = ones` in a block, and `where(x > 0, x, slope * x)`": (
        "prelu PReLU"
    ),
    "slopes are not drawn; `leaky_relu` has one": "rrelu RReLU",
    "rows are repeated by `insert_axis(iota(w), 0, h)`, columns by `insert_axis(iota(h), 1, w)`": (
        "meshgrid"
    ),
    "sequences are padded before they are given, with a `mask: bool[n, s]` beside them": (
        "pad_sequence pack_padded_sequence pad_packed_sequence ragged"
    ),
    "a loop counts, `for i in 0..len(widths):`, and `widths[i]` is what a list has there": (
        "enumerate zip reversed"
    ),
    "optimizers stand under `run:`, as `optimizer = adamw(lr=1e-3)`": "Optimizer",
}
"""Words for names without a form."""

WARNINGS: Mapping[str, str] = {
    "an exponent that is infinite gives NaN for bases of 1 and below 0": "pow power",
    "its square overflows where the numbers are large, and its slope is not finite where all are"
    " 0": "norm vector_norm",
    "PyTorch divides by d - 1, NumPy and `variance` by d": "var std",
    "it is exact near 0, and not defined beyond 0 and 1": "logit",
    "there are no integers of 64 bits": "long",
    "here images are [n, c, h, w], and the weights begin as PyTorch's": ("Conv2D Conv2DTranspose"),
    "the running variance is PyTorch's, without bias": "BatchNormalization",
    "labels are below the number of classes: with padding it is `masked_cross_entropy`": (
        "CrossEntropyLoss"
    ),
    "its argument is log probabilities: of logits it is `cross_entropy(x, ids)`": (
        "nll_loss NLLLoss"
    ),
    "`edges` have to rise": "bucketize digitize",
    "steps are given one after another, with a label for each that has weights": "Sequential",
    "leave it out": "Identity",
    "values never change, so there is nothing to copy: leave it out": "clone contiguous copy",
    "its first argument is log probabilities": "kl_div KLDivLoss",
    "where two rows are equal, its slope is not finite": "cdist",
    "tensors begin as inputs; of listed numbers": "tensor array as_tensor asarray",
    "an equation of letters is a product, a sum over axes, or `rearrange`": "einsum",
    "the largest window is taken over a whole axis by `mean`; to other sizes it is `avg_pool`": (
        "adaptive_avg_pool2d AdaptiveAvgPool2d"
    ),
    "where both are infinite, this is NaN": "logaddexp",
    "what is small is lost beside the 1": "erfc",
    "its square overflows where the numbers are large": (
        "asinh arcsinh hypot cosine_similarity CosineSimilarity pairwise_distance"
    ),
    "where the quotient is large or not finite, it differs": "remainder mod floor_divide",
    "below 1 it is not defined": "acosh arccosh",
    "of equal ones the first comes first, which PyTorch leaves open": "topk",
    "of a row with NaN it is some number, where PyTorch gives NaN": "median",
    "its squares overflow where the numbers are large": "GroupNorm",
    "PyTorch spreads a pixel that is not finite": "Resize",
    "by a factor without smoothing, to a size with it; PyTorch spreads a pixel that is not"
    " finite": "interpolate",
    "the reduction is called by its own name, with the axes that are left": "reduce",
    "it drops in training alone": "Dropout Dropout2d SpatialDropout2D",
}
"""Warnings that are shown beside the forms of a name."""
