"""Code of this language for functions and layers of PyTorch, NumPy and Keras.

Each form is proved as it stands, and gives what the calls of other systems beside it give: a test
runs both. `x`, `y`: [n, d], `v`: [n, 8 * k], `z`: [n, c, d], `one`: [n, 1, d], `w`: [n, d, k],
`m`: [d, k], `edges`: [k], `row`: [d], `column`: [n], `q`: [n, heads, s, e], `image`: [n, 3, h, u],
`mask`: bool[n, d], `ids`: i32[n] below d, `order`: i32[n, d] below d.
"""

from collections.abc import Mapping

FORMS: Mapping[str, Mapping[str, str]] = {
    # --- shapes ---
    "rearrange(z, [n, c, d] -> [n, c * d])": {
        "reshape": "z.reshape(n, c * d)",
        "view": "z.view(n, c * d)",
        "Reshape": "keras.layers.Reshape((c * d,))(z)",
        "flatten": "z.flatten(1)",
        "Flatten": "nn.Flatten()(z)",
    },
    "rearrange(z, [n, c, d] -> [n * c * d])": {"flatten": "z.flatten()", "ravel": "z.ravel()"},
    "rearrange(v, [n, 8 * k] -> [n, 8, k])": {
        "unflatten": "v.unflatten(1, (8, k))",
        "Unflatten": "nn.Unflatten(1, (8, k))(v)",
        "reshape": "v.reshape(n, 8, k)",
        "view": "v.view(n, 8, k)",
    },
    "rearrange(z, [n, c, d] -> [n, d, c])": {
        "transpose": "z.transpose(1, 2)",
        "permute": "z.permute(0, 2, 1)",
        "Permute": "keras.layers.Permute((2, 1))(z)",
        "swapaxes": "np.swapaxes(z, 1, 2)",
        "swapdims": "z.swapdims(1, 2)",
        "moveaxis": "np.moveaxis(z, 1, 2)",
        "movedim": "z.movedim(1, 2)",
        "mT": "z.mT",
        "matrix_transpose": "np.matrix_transpose(z)",
    },
    "rearrange(x, [n, d] -> [d, n])": {"T": "x.T", "t": "x.t()", "transpose": "x.transpose(0, 1)"},
    "rearrange(x, [n, d] -> [n, 1, d])": {
        "unsqueeze": "x.unsqueeze(1)",
        "expand_dims": "np.expand_dims(x, 1)",
        "newaxis": "x[:, np.newaxis]",
    },
    "rearrange(one, [n, 1, d] -> [n, d])": {"squeeze": "one.squeeze(1)"},
    "expand(x, [n, d] -> [n, c, d])": {
        "broadcast_to": "x[:, None].broadcast_to(n, c, d)",
        "expand_as": "x[:, None].expand_as(z)",
    },
    "insert_axis(x, 1, 3)": {"RepeatVector": "keras.layers.RepeatVector(3)(x)"},
    "concat(x, x, x, axis=1)": {"tile": "x.tile(1, 3)"},
    "repeat(x, 1, 3)": {"repeat_interleave": "x.repeat_interleave(3, 1)"},
    "concat(x, y, axis=1)": {
        "cat": "torch.cat((x, y), 1)",
        "concatenate": "np.concatenate((x, y), 1)",
        "hstack": "np.hstack((x, y))",
        "column_stack": "np.column_stack((x, y))",
        "Concatenate": "keras.layers.Concatenate()([x, y])",
    },
    "concat(x, y, axis=0)": {"vstack": "np.vstack((x, y))", "row_stack": "torch.row_stack((x, y))"},
    "concat(insert_axis(x, 1, 1), insert_axis(y, 1, 1), axis=1)": {
        "stack": "torch.stack((x, y), 1)"
    },
    "concat(insert_axis(x, 2, 1), insert_axis(y, 2, 1), axis=2)": {"dstack": "np.dstack((x, y))"},
    "left = v[:, :4 * k]\nright = v[:, 4 * k:]": {
        "split": "v.split(4 * k, 1)",
        "chunk": "v.chunk(2, 1)",
        "tensor_split": "v.tensor_split(2, 1)",
        "array_split": "np.array_split(v, 2, 1)",
    },
    "x[:, 1:4]": {"narrow": "x.narrow(1, 1, 3)", "slice": "x[:, slice(1, 4)]"},
    "x[:, 0]": {"select": "x.select(1, 0)"},
    "gather(x, ids, axis=1)": {
        "index_select": "x.index_select(1, ids)",
        "take": "np.take(x, ids, 1)",
    },
    "gather(x, order, axis=1, batch=1)": {
        "take_along_dim": "x.take_along_dim(order, 1)",
        "take_along_axis": "np.take_along_axis(x, order, 1)",
    },
    "reverse(x, 1)": {"flip": "x.flip(1)", "fliplr": "x.fliplr()"},
    "reverse(x, 0)": {"flipud": "x.flipud()"},
    "pad(pad(image, 2, 1, 1), 3, 1, 1)": {
        "ZeroPad2d": "nn.ZeroPad2d(1)(image)",
        "ConstantPad2d": "nn.ConstantPad2d(1, 0.0)(image)",
        "ZeroPadding2D": "nn.ZeroPad2d(1)(image)",
        "constant_pad_nd": "torch.constant_pad_nd(image, (1, 1, 1, 1))",
    },
    "rearrange(image, [n, 3, h, u] -> [n, h, u, 3])": {
        "channels_last": "image.movedim(1, -1)",
    },
    # --- products ---
    "z @ w": {
        "matmul": "z.matmul(w)",
        "bmm": "z.bmm(w)",
        "Dot": "keras.layers.Dot((2, 1))([z, w])",
    },
    "x @ m": {"mm": "x.mm(m)", "dot": "np.dot(x, m)"},
    "z @ m": {"tensordot": "np.tensordot(z, m, 1)"},
    "edges + x @ m": {"addmm": "torch.addmm(edges, x, m)"},
    "x @ rearrange(y, [n, d] -> [d, n])": {"inner": "np.inner(x, y)"},
    "sum(x * y)": {"vdot": "np.vdot(x, y)"},
    "sum(x * y, 1)": {"vecdot": "torch.linalg.vecdot(x, y)"},
    "insert_axis(column, 1, d) * row": {"outer": "torch.outer(column, row)"},
    # --- elements ---
    "minimum(maximum(x, 0), 6)": {"clamp": "x.clamp(0, 6)", "clip": "np.clip(x, 0, 6)"},
    "maximum(x, 0)": {"clamp_min": "x.clamp_min(0)"},
    "minimum(x, 6)": {"clamp_max": "x.clamp_max(6)"},
    "x ** 2": {
        "square": "x.square()",
        "sqr": "x.square()",
        "pow": "x.pow(2)",
        "power": "np.power(x, 2)",
    },
    "x ** y": {"pow": "torch.pow(x, y)", "power": "np.power(x, y)"},
    "x ** -0.5": {"rsqrt": "x.rsqrt()"},
    "1 / x": {"reciprocal": "x.reciprocal()"},
    "x + y": {"add": "x.add(y)", "Add": "keras.layers.Add()([x, y])"},
    "x - y": {"sub": "x.sub(y)", "subtract": "np.subtract(x, y)", "Subtract": "x - y"},
    "x * y": {
        "mul": "x.mul(y)",
        "multiply": "np.multiply(x, y)",
        "Multiply": "keras.layers.Multiply()([x, y])",
    },
    "x / y": {
        "div": "x.div(y)",
        "divide": "np.divide(x, y)",
        "true_divide": "np.true_divide(x, y)",
    },
    "-x": {"neg": "x.neg()", "negative": "np.negative(x)"},
    "x + 0.3 * (y - x)": {"lerp": "x.lerp(y, 0.3)"},
    "x + 0.5 * y * y": {"addcmul": "x.addcmul(y, y, value=0.5)"},
    "where(mask, 0, x)": {"masked_fill": "x.masked_fill(mask, 0)"},
    "x == y": {"eq": "x.eq(y)", "equal": "np.equal(x, y)"},
    "x != y": {"ne": "x.ne(y)", "not_equal": "np.not_equal(x, y)"},
    "x < y": {"lt": "x.lt(y)", "less": "np.less(x, y)"},
    "x <= y": {"le": "x.le(y)", "less_equal": "np.less_equal(x, y)"},
    "x > y": {"gt": "x.gt(y)", "greater": "np.greater(x, y)"},
    "x >= y": {"ge": "x.ge(y)", "greater_equal": "np.greater_equal(x, y)"},
    "mask and x > 0": {"logical_and": "mask.logical_and(x > 0)"},
    "mask or x > 0": {"logical_or": "mask.logical_or(x > 0)"},
    "not mask": {"logical_not": "mask.logical_not()"},
    "stop_gradient(x)": {"detach": "x.detach()", "no_grad": "torch.no_grad()(lambda: x)()"},
    "x": {
        "clone": "x.clone()",
        "contiguous": "x.contiguous()",
        "copy": "np.copy(x)",
        "Identity": "nn.Identity()(x)",
    },
    "maximum(x, y)": {"fmax": "x.maximum(y)", "Maximum": "x.maximum(y)"},
    "minimum(x, y)": {"fmin": "x.minimum(y)", "Minimum": "x.minimum(y)"},
    "x * 0.017453292519943295": {"deg2rad": "x.deg2rad()", "radians": "np.radians(x)"},
    "x * 57.29577951308232": {"rad2deg": "x.rad2deg()", "degrees": "np.degrees(x)"},
    "abs(x)": {"absolute": "x.absolute()", "fabs": "np.fabs(x)"},
    "-floor(-x)": {"ceil": "x.ceil()"},
    "sign(x) * floor(abs(x))": {"trunc": "x.trunc()", "fix": "np.fix(x)"},
    "x - sign(x) * floor(abs(x))": {"frac": "x.frac()"},
    "round(x)": {"rint": "np.rint(x)"},
    "sign(x)": {"sgn": "x.sgn()"},
    "exp(x * log(2))": {"exp2": "x.exp2()"},
    "log(x) / log(2)": {"log2": "x.log2()"},
    "log(x) / log(10)": {"log10": "x.log10()"},
    "sin(x) / cos(x)": {"tan": "x.tan()"},
    "log(x / (1 - x))": {"logit": "x.logit()"},
    "1 - erf(x)": {"erfc": "x.erfc()"},
    "(exp(x) - exp(-x)) / 2": {"sinh": "x.sinh()"},
    "(exp(x) + exp(-x)) / 2": {"cosh": "x.cosh()"},
    "0.5 * log((1 + x) / (1 - x))": {"atanh": "x.atanh()", "arctanh": "np.arctanh(x)"},
    "sign(x) * log(abs(x) + sqrt(x ** 2 + 1))": {
        "asinh": "x.asinh()",
        "arcsinh": "np.arcsinh(x)",
    },
    "log(x + sqrt(x ** 2 - 1))": {"acosh": "x.acosh()", "arccosh": "np.arccosh(x)"},
    "sqrt(x ** 2 + y ** 2)": {"hypot": "x.hypot(y)"},
    "maximum(x, y) + softplus(-abs(x - y))": {"logaddexp": "x.logaddexp(y)"},
    "x - y * floor(x / y)": {"remainder": "x.remainder(y)", "mod": "np.mod(x, y)"},
    "floor(x / y)": {"floor_divide": "x.floor_divide(y)"},
    "f32(x > 0)": {"step": "(x > 0).float()"},
    "f32(ids)": {"float": "ids.float()"},
    "i32(x)": {"long": "x.long()"},
    "f16(x)": {"half": "x.half()"},
    # --- reductions ---
    "sum(x * row, 1)": {"mv": "x.mv(row)", "matvec": "np.matvec(x, row)"},
    "sqrt(sum((insert_axis(x, 1, n) - insert_axis(y, 0, n)) ** 2, 2))": {
        "cdist": "torch.cdist(x, y)"
    },
    "max(x, 1)": {"amax": "x.amax(1)", "reduce_max": "x.amax(1)"},
    "min(x, 1)": {"amin": "x.amin(1)", "reduce_min": "x.amin(1)"},
    "sum(x, 1)": {"reduce_sum": "x.sum(1)"},
    "mean(x, 1)": {"reduce_mean": "x.mean(1)", "average": "np.average(x, 1)"},
    "variance(x, 1) * d / (d - 1)": {"var": "x.var(1)"},
    "variance(x, 1)": {"var": "np.var(x, 1)"},
    "sqrt(variance(x, 1) * d / (d - 1))": {"std": "x.std(1)"},
    "sqrt(variance(x, 1))": {"std": "np.std(x, 1)"},
    "sqrt(sum(x ** 2))": {"norm": "x.norm()"},
    "sqrt(sum(x ** 2, 1))": {"norm": "x.norm(dim=1)", "vector_norm": "torch.linalg.norm(x, dim=1)"},
    "logsumexp(axis=1)(x)": {"log_sum_exp": "x.logsumexp(1)"},
    "sum(x * y, 1) / (maximum(sqrt(sum(x ** 2, 1)), 1e-8) * maximum(sqrt(sum(y ** 2, 1)), 1e-8))": {
        "cosine_similarity": "F.cosine_similarity(x, y)",
        "CosineSimilarity": "nn.CosineSimilarity()(x, y)",
    },
    "sqrt(sum((x - y + 1e-6) ** 2, 1))": {
        "pairwise_distance": "F.pairwise_distance(x, y)",
        "PairwiseDistance": "nn.PairwiseDistance()(x, y)",
    },
    "mean(z, [n, c, d] -> [n, d])": {"reduce": "z.mean(1)"},
    "cumprod(x, 1)[:, -1]": {"prod": "x.prod(1)"},
    "sum(i32(x != 0), 1)": {"count_nonzero": "x.count_nonzero(1)"},
    "rising, _places = sort(x, 1)\nrising[:, (d - 1) // 2]": {"median": "x.median(1).values"},
    "x[:, 1:] - x[:, :-1]": {"diff": "x.diff()"},
    "best, places = top_k(x, 3)": {"topk": "x.topk(3)"},
    "sum(i32(insert_axis(x, 2, k) > edges), 2)": {
        "bucketize": "torch.bucketize(x, edges.sort().values)",
        "digitize": "np.digitize(x, np.sort(edges), right=True)",
    },
    "scatter_add(ids, y, d)": {
        "index_add": "torch.zeros(d, d).index_add(0, ids, y)",
        "segment_sum": "torch.zeros(d, d).index_add(0, ids, y)",
    },
    "scatter_add(ids, ones(shape(ids)), d)": {"bincount": "ids.bincount(minlength=d)"},
    # --- new tensors ---
    "iota(d)": {"arange": "torch.arange(d)", "range": "np.array(range(d))"},
    "f32(iota(d)) / (d - 1)": {"linspace": "torch.linspace(0, 1, d)"},
    "one_hot(iota(d), d)": {"eye": "torch.eye(d)"},
    "zeros(shape(x))": {
        "zeros_like": "torch.zeros_like(x)",
        "empty": "torch.zeros_like(x)",
        "empty_like": "torch.zeros_like(x)",
    },
    "ones(shape(x))": {"ones_like": "torch.ones_like(x)"},
    "full(shape(x), 0.5)": {"full_like": "torch.full_like(x, 0.5)"},
    "constant([1.0, 2.0])": {
        "tensor": "torch.tensor([1.0, 2.0])",
        "array": "np.array([1.0, 2.0])",
        "as_tensor": "torch.as_tensor([1.0, 2.0])",
        "asarray": "np.asarray([1.0, 2.0])",
    },
    "where(iota(d) <= insert_axis(iota(n), 1, d), x, 0)": {"tril": "x.tril()"},
    "where(iota(d) >= insert_axis(iota(n), 1, d), x, 0)": {"triu": "x.triu()"},
    "where(one_hot(iota(d), d) > 0, insert_axis(x, 2, d), 0)": {"diag_embed": "x.diag_embed()"},
    "random_normal(shape(x))": {"randn_like": "torch.randn_like(x)"},
    "random_uniform(shape(x))": {"rand_like": "torch.rand_like(x)"},
    "random_normal([n, d])": {
        "randn": "torch.randn(n, d)",
        "normal_": "x.normal_()",
    },
    "random_uniform([n, d])": {"rand": "torch.rand(n, d)"},
    "i32(floor(10 * random_uniform([n, d])))": {"randint": "torch.randint(10, (n, d))"},
    "f32(random_uniform([n, d]) < 0.3)": {"bernoulli": "torch.full((n, d), 0.3).bernoulli()"},
    "argsort(random_uniform([n]))": {
        "randperm": "torch.randperm(n)",
        "permutation": "np.random.permutation(n)",
    },
    # --- layers ---
    "x |> fc: linear(10)": {"Linear": "nn.Linear(d, 10)(x)", "Dense": "keras.layers.Dense(10)(x)"},
    "x |> fc1: linear(16) |> relu |> fc2: linear(10)": {
        "Sequential": "nn.Sequential(nn.Linear(d, 16), nn.ReLU(), nn.Linear(16, 10))(x)"
    },
    "z |> conv1: conv1d(64, 3, pad=1)": {
        "Conv1d": "nn.Conv1d(c, 64, 3, padding=1)(z)",
        "Conv1D": "nn.Conv1d(c, 64, 3, padding=1)(z)",
    },
    "image |> conv1: conv2d(64, 3, pad=1)": {
        "Conv2d": "nn.Conv2d(3, 64, 3, padding=1)(image)",
        "Conv2D": "keras.layers.Conv2D(64, 3, padding='same')(image)",
    },
    "image |> up: conv_transpose2d(32, 2, 2)": {
        "ConvTranspose2d": "nn.ConvTranspose2d(3, 32, 2, 2)(image)",
        "conv2d_transpose": "nn.ConvTranspose2d(3, 32, 2, 2)(image)",
        "Conv2DTranspose": "keras.layers.Conv2DTranspose(32, 2, 2)(image)",
    },
    "image |> max_pool(2)": {
        "max_pool2d": "F.max_pool2d(image, 2)",
        "MaxPool2d": "nn.MaxPool2d(2)(image)",
        "MaxPool2D": "keras.layers.MaxPool2D()(image)",
        "MaxPooling2D": "keras.layers.MaxPool2D()(image)",
    },
    "image |> max_pool(3, 2, pad=1)": {
        "max_pool2d": "F.max_pool2d(image, 3, 2, padding=1)",
        "MaxPool2d": "nn.MaxPool2d(3, 2, padding=1)(image)",
    },
    "z |> max_pool(2)": {
        "max_pool1d": "F.max_pool1d(z, 2)",
        "MaxPool1d": "nn.MaxPool1d(2)(z)",
        "MaxPooling1D": "nn.MaxPool1d(2)(z)",
    },
    "insert_axis(image, 2, 4) |> max_pool(2)": {
        "max_pool3d": "F.max_pool3d(image[:, :, None].expand(n, 3, 4, h, u), 2)",
        "MaxPool3d": "nn.MaxPool3d(2)(image[:, :, None].expand(n, 3, 4, h, u))",
        "MaxPooling3D": "nn.MaxPool3d(2)(image[:, :, None].expand(n, 3, 4, h, u))",
    },
    "insert_axis(image, 2, 4) |> avg_pool(2)": {
        "avg_pool3d": "F.avg_pool3d(image[:, :, None].expand(n, 3, 4, h, u), 2)",
        "AvgPool3d": "nn.AvgPool3d(2)(image[:, :, None].expand(n, 3, 4, h, u))",
        "AveragePooling3D": "nn.AvgPool3d(2)(image[:, :, None].expand(n, 3, 4, h, u))",
    },
    "insert_axis(image, 2, 4) |> bn1: batch_norm": {
        "BatchNorm3d": "nn.BatchNorm3d(3)(image[:, :, None].expand(n, 3, 4, h, u))"
    },
    "image |> avg_pool(2)": {
        "avg_pool2d": "F.avg_pool2d(image, 2)",
        "AvgPool2d": "nn.AvgPool2d(2)(image)",
        "AveragePooling2D": "keras.layers.AveragePooling2D()(image)",
    },
    "z |> avg_pool(2)": {
        "avg_pool1d": "F.avg_pool1d(z, 2)",
        "AvgPool1d": "nn.AvgPool1d(2)(z)",
        "AveragePooling1D": "nn.AvgPool1d(2)(z)",
    },
    "mean(image, 2, 3)": {
        "adaptive_avg_pool2d": "F.adaptive_avg_pool2d(image, 1).flatten(1)",
        "adaptive_avg_pool": "F.adaptive_avg_pool2d(image, 1).flatten(1)",
        "AdaptiveAvgPool2d": "nn.AdaptiveAvgPool2d(1)(image).flatten(1)",
        "GlobalAveragePooling2D": "keras.layers.GlobalAveragePooling2D()(image)",
        "global_avg_pool": "image.mean((2, 3))",
    },
    "max(image, 2, 3)": {
        "adaptive_max_pool2d": "F.adaptive_max_pool2d(image, 1).flatten(1)",
        "adaptive_max_pool": "F.adaptive_max_pool2d(image, 1).flatten(1)",
        "AdaptiveMaxPool2d": "nn.AdaptiveMaxPool2d(1)(image).flatten(1)",
        "GlobalMaxPooling2D": "keras.layers.GlobalMaxPooling2D()(image)",
    },
    "x |> bn1: batch_norm": {"BatchNorm1d": "nn.BatchNorm1d(d)(x)"},
    "image |> bn1: batch_norm": {
        "BatchNorm2d": "nn.BatchNorm2d(3)(image)",
        "BatchNorm": "nn.BatchNorm2d(3)(image)",
        "batch_norm2d": "nn.BatchNorm2d(3)(image)",
        "SyncBatchNorm": "nn.BatchNorm2d(3)(image)",
    },
    "image |> bn1: batch_norm(eps=1e-3, momentum=0.01)": {
        "BatchNormalization": "keras.layers.BatchNormalization(axis=1)(image)"
    },
    "x |> ln: layer_norm": {"LayerNorm": "nn.LayerNorm(d)(x)", "layernorm": "nn.LayerNorm(d)(x)"},
    "x |> ln: layer_norm(eps=1e-3)": {"LayerNormalization": "keras.layers.LayerNormalization()(x)"},
    "x |> norm: rms_norm(eps=1.2e-7)": {"RMSNorm": "nn.RMSNorm(d, eps=1.2e-7)(x)"},
    "image |> gn: group_norm(3)": {"GroupNorm": "nn.GroupNorm(3, 3)(image)"},
    "image |> instance_norm": {"InstanceNorm2d": "nn.InstanceNorm2d(3)(image)"},
    "ids |> table: embedding(1000, 64)": {"Embedding": "nn.Embedding(1000, 64)(ids)"},
    "x |> dropout(0.1)": {"Dropout": "nn.Dropout(0.1)(x)"},
    "image |> dropout2d(0.1)": {
        "Dropout2d": "nn.Dropout2d(0.1)(image)",
        "SpatialDropout2D": "nn.Dropout2d(0.1)(image)",
    },
    "attention(q, q, q)": {
        "scaled_dot_product_attention": "F.scaled_dot_product_attention(q, q, q)"
    },
    "attention(q, q, q, causal=true)": {
        "scaled_dot_product_attention": "F.scaled_dot_product_attention(q, q, q, is_causal=True)"
    },
    "qkv = z |> qkv: linear(3 * d) |> rearrange([n, c, 3 * heads * r] -> [3, n, heads, c, r])\n"
    "y = attention(qkv[0], qkv[1], qkv[2]) |> rearrange([n, heads, c, r] -> [n, c, heads * r])\n"
    "y |> out: linear(d)": {
        "MultiheadAttention": "nn.MultiheadAttention(d, heads, batch_first=True)(z, z, z)[0]"
    },
    "image |> upsample(2)": {
        "Upsample": "nn.Upsample(scale_factor=2)(image)",
        "UpSampling2D": "keras.layers.UpSampling2D()(image)",
        "interpolate": "F.interpolate(image, scale_factor=2)",
    },
    "image |> resize(8, 8)": {
        "interpolate": "F.interpolate(image, (8, 8), mode='bilinear')",
        "Resize": "F.interpolate(image, (8, 8), mode='bilinear')",
    },
    "from recurrent import lstm\nz |> rnn: lstm(16)": {
        "LSTM": "nn.LSTM(d, 16, batch_first=True)(z)[0]",
        "lstm": "nn.LSTM(d, 16, batch_first=True)(z)[0]",
    },
    "from recurrent import gru\nz |> rnn: gru(16)": {
        "GRU": "nn.GRU(d, 16, batch_first=True)(z)[0]",
        "gru": "nn.GRU(d, 16, batch_first=True)(z)[0]",
    },
    "rearrange(image, [n, 3, h, u] -> [n, 3, 1, h, u]) |> conv1: conv3d(8, 3, pad=1)": {
        "Conv3d": "nn.Conv3d(3, 8, 3, padding=1)(image[:, :, None])",
        "Conv3D": "nn.Conv3d(3, 8, 3, padding=1)(image[:, :, None])",
    },
    "z |> up: conv_transpose1d(32, 2, 2)": {
        "ConvTranspose1d": "nn.ConvTranspose1d(c, 32, 2, 2)(z)",
        "Conv1DTranspose": "nn.ConvTranspose1d(c, 32, 2, 2)(z)",
    },
    "mean(z, 2)": {
        "adaptive_avg_pool1d": "F.adaptive_avg_pool1d(z, 1).flatten(1)",
        "AdaptiveAvgPool1d": "nn.AdaptiveAvgPool1d(1)(z).flatten(1)",
        "GlobalAveragePooling1D": "z.mean(2)",
    },
    "max(z, 2)": {
        "adaptive_max_pool1d": "F.adaptive_max_pool1d(z, 1).flatten(1)",
        "AdaptiveMaxPool1d": "nn.AdaptiveMaxPool1d(1)(z).flatten(1)",
        "GlobalMaxPooling1D": "z.amax(2)",
    },
    "z |> instance_norm": {"InstanceNorm1d": "nn.InstanceNorm1d(c)(z)"},
    # --- activations ---
    "relu(x)": {"ReLU": "nn.ReLU()(x)"},
    "relu6(x)": {"ReLU6": "nn.ReLU6()(x)"},
    "leaky_relu(x)": {"LeakyReLU": "nn.LeakyReLU()(x)"},
    "leaky_relu(slope=0.3)(x)": {"LeakyReLU": "keras.layers.LeakyReLU()(x)"},
    "elu(x)": {"ELU": "nn.ELU()(x)", "celu": "F.celu(x)", "CELU": "nn.CELU()(x)"},
    "1.0507009873554805 * elu(alpha=1.6732632423543772)(x)": {
        "selu": "F.selu(x)",
        "SELU": "nn.SELU()(x)",
    },
    "gelu(x)": {"GELU": "nn.GELU()(x)"},
    "silu(x)": {"swish": "F.silu(x)", "SiLU": "nn.SiLU()(x)", "Swish": "F.silu(x)"},
    "mish(x)": {"Mish": "nn.Mish()(x)"},
    "glu(v)": {"GLU": "nn.GLU()(v)"},
    "sigmoid(x)": {"Sigmoid": "nn.Sigmoid()(x)", "expit": "torch.special.expit(x)"},
    "hard_sigmoid(x)": {"hardsigmoid": "F.hardsigmoid(x)", "Hardsigmoid": "nn.Hardsigmoid()(x)"},
    "hard_swish(x)": {"hardswish": "F.hardswish(x)", "Hardswish": "nn.Hardswish()(x)"},
    "minimum(maximum(x, -1), 1)": {"hardtanh": "F.hardtanh(x)", "Hardtanh": "nn.Hardtanh()(x)"},
    "tanh(x)": {"Tanh": "nn.Tanh()(x)"},
    "x - tanh(x)": {"tanhshrink": "F.tanhshrink(x)", "Tanhshrink": "nn.Tanhshrink()(x)"},
    "where(abs(x) <= 0.5, 0, x)": {
        "hardshrink": "F.hardshrink(x)",
        "Hardshrink": "nn.Hardshrink()(x)",
    },
    "sign(x) * maximum(abs(x) - 0.5, 0)": {
        "softshrink": "F.softshrink(x)",
        "Softshrink": "nn.Softshrink()(x)",
    },
    "where(x <= 0.1, 20, x)": {
        "threshold": "F.threshold(x, 0.1, 20)",
        "Threshold": "nn.Threshold(0.1, 20)(x)",
    },
    "x / (1 + abs(x))": {"softsign": "F.softsign(x)", "Softsign": "nn.Softsign()(x)"},
    "log_sigmoid(x)": {"logsigmoid": "F.logsigmoid(x)", "LogSigmoid": "nn.LogSigmoid()(x)"},
    "softplus(x)": {"Softplus": "nn.Softplus()(x)"},
    "softmax(x)": {"Softmax": "nn.Softmax(-1)(x)"},
    "softmax(-x)": {"softmin": "F.softmin(x, -1)", "Softmin": "nn.Softmin(-1)(x)"},
    "log_softmax(x)": {"LogSoftmax": "nn.LogSoftmax(-1)(x)"},
    "x / insert_axis(maximum(sqrt(sum(x ** 2, 1)), 1e-12), 1, d)": {"normalize": "F.normalize(x)"},
    # --- losses and metrics ---
    "cross_entropy(x, ids)": {"CrossEntropyLoss": "nn.CrossEntropyLoss()(x, ids)"},
    "-mean(sum(where(one_hot(ids, d) > 0, x, 0), 1))": {
        "nll_loss": "F.nll_loss(x, ids)",
        "NLLLoss": "nn.NLLLoss()(x, ids)",
    },
    "mse(x, y)": {
        "mse_loss": "F.mse_loss(x, y)",
        "MSELoss": "nn.MSELoss()(x, y)",
        "MeanSquaredError": "keras.losses.MeanSquaredError()(x, y)",
        "mean_squared_error": "np.mean((x - y) ** 2)",
    },
    "l1(x, y)": {
        "l1_loss": "F.l1_loss(x, y)",
        "L1Loss": "nn.L1Loss()(x, y)",
        "MeanAbsoluteError": "keras.losses.MeanAbsoluteError()(x, y)",
        "mae": "np.mean(abs(x - y))",
    },
    "sqrt(mse(x, y))": {"rmse": "np.sqrt(np.mean((x - y) ** 2))"},
    "smooth_l1(x, y)": {
        "smooth_l1_loss": "F.smooth_l1_loss(x, y)",
        "SmoothL1Loss": "nn.SmoothL1Loss()(x, y)",
        "huber_loss": "F.huber_loss(x, y)",
        "HuberLoss": "nn.HuberLoss()(x, y)",
        "Huber": "keras.losses.Huber()(x, y)",
    },
    "0.5 * smooth_l1(beta=0.5)(x, y)": {
        "huber_loss": "F.huber_loss(x, y, delta=0.5)",
        "HuberLoss": "nn.HuberLoss(delta=0.5)(x, y)",
    },
    "bce(x, y)": {
        "binary_cross_entropy_with_logits": "F.binary_cross_entropy_with_logits(x, y)",
        "BCEWithLogitsLoss": "nn.BCEWithLogitsLoss()(x, y)",
    },
    "mean(where(y == 0, 0, y * (log(y) - x)))": {
        "kl_div": "F.kl_div(x, y)",
        "KLDivLoss": "nn.KLDivLoss()(x, y)",
    },
    "sum(where(y == 0, 0, y * (log(y) - x))) / n": {
        "kl_div": "F.kl_div(x, y, reduction='batchmean')",
        "KLDivLoss": "nn.KLDivLoss(reduction='batchmean')(x, y)",
    },
    "mean(exp(x) - y * x)": {
        "poisson_nll_loss": "F.poisson_nll_loss(x, y)",
        "PoissonNLLLoss": "nn.PoissonNLLLoss()(x, y)",
    },
}
"""The call of another system that each form is, for each of its names."""
