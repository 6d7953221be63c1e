"""Blocks of neural networks. Calling a block with keywords makes a layer with parameters, which is applied to
tensors.
"""

from typing import TYPE_CHECKING

from ocannl.nn.activations import (
    elu,
    gelu,
    glu,
    hardswish,
    leaky_relu,
    log_sigmoid,
    mish,
    relu6,
    selu,
    sigmoid,
    silu,
    softplus,
    swiglu,
)
from ocannl.nn.dropout import dropout
from ocannl.nn.embedding import embedding
from ocannl.nn.experts.moe import moe
from ocannl.nn.images.conv import conv1d, conv2d, conv3d, depthwise_separable_conv2d
from ocannl.nn.images.conv_transpose import conv_transpose1d, conv_transpose2d, conv_transpose3d
from ocannl.nn.images.interpolation import interpolate
from ocannl.nn.images.padding import pad
from ocannl.nn.images.pixel_shuffle import pixel_shuffle, pixel_unshuffle
from ocannl.nn.images.pool import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    global_avg_pool2d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    smooth_max_pool2d,
)
from ocannl.nn.images.unpool import max_unpool
from ocannl.nn.layer import Layer, MaskedLayer, TrainingLayer
from ocannl.nn.linear import linear
from ocannl.nn.losses import (
    bce_with_logits,
    cosine_similarity,
    cross_entropy,
    hinge,
    huber,
    kl_div,
    l1,
    mse,
    nll,
    smooth_l1,
    triplet,
)
from ocannl.nn.means import mean, output_mean
from ocannl.nn.metrics import accuracy, confusion_matrix, f1, perplexity, r2, top_k_accuracy
from ocannl.nn.mlp import mlp, mlp_layer
from ocannl.nn.networks.conv_bn_relu import conv_bn_relu
from ocannl.nn.networks.lenet import lenet
from ocannl.nn.networks.mobile_cnn import mobile_cnn
from ocannl.nn.networks.resnet import resnet_block
from ocannl.nn.networks.vgg import vgg_block
from ocannl.nn.normalization.batch_norm import batch_norm1d, batch_norm2d
from ocannl.nn.normalization.group_norm import group_norm, instance_norm
from ocannl.nn.normalization.norms import layer_norm, rms_norm
from ocannl.nn.normalization.reparametrized import spectral_norm, weight_norm
from ocannl.nn.sequences.ctc import ctc
from ocannl.nn.sequences.gru import gru
from ocannl.nn.sequences.lstm import lstm
from ocannl.nn.sequences.recurrent import RecurrentLayer
from ocannl.nn.sequences.rnn import rnn
from ocannl.nn.sequences.selective_ssm import selective_ssm
from ocannl.nn.softmax import log_softmax, softmax
from ocannl.nn.transformers.attention import (
    causal_mask,
    cross_attention,
    dot_product_attention,
    multi_head_attention,
)
from ocannl.nn.transformers.kv_cache import KVCache, kv_cache
from ocannl.nn.transformers.paged_cache import PagedCache, paged_cache
from ocannl.nn.transformers.positions import learned_positions, rotary, sinusoidal_positions
from ocannl.nn.transformers.transformer import (
    decoder_layer,
    decoder_only,
    encoder_layer,
    feed_forward,
    residual,
    transformer,
    transformer_decoder,
    transformer_encoder,
)
from ocannl.nn.weights.lora import lora
from ocannl.nn.weights.quantized import quantized
from ocannl.program.mistakes.misuse import explain_all
from ocannl.program.mistakes.other_names import OF_NN, missing

__all__ = [
    "KVCache",
    "Layer",
    "MaskedLayer",
    "PagedCache",
    "RecurrentLayer",
    "TrainingLayer",
    "accuracy",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm1d",
    "batch_norm2d",
    "bce_with_logits",
    "causal_mask",
    "confusion_matrix",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_bn_relu",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_similarity",
    "cross_attention",
    "cross_entropy",
    "ctc",
    "decoder_layer",
    "decoder_only",
    "depthwise_separable_conv2d",
    "dot_product_attention",
    "dropout",
    "elu",
    "embedding",
    "encoder_layer",
    "f1",
    "feed_forward",
    "gelu",
    "global_avg_pool2d",
    "glu",
    "group_norm",
    "gru",
    "hardswish",
    "hinge",
    "huber",
    "instance_norm",
    "interpolate",
    "kl_div",
    "kv_cache",
    "l1",
    "layer_norm",
    "leaky_relu",
    "learned_positions",
    "lenet",
    "linear",
    "log_sigmoid",
    "log_softmax",
    "lora",
    "lstm",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool",
    "mean",
    "mish",
    "mlp",
    "mlp_layer",
    "mobile_cnn",
    "moe",
    "mse",
    "multi_head_attention",
    "nll",
    "output_mean",
    "pad",
    "paged_cache",
    "perplexity",
    "pixel_shuffle",
    "pixel_unshuffle",
    "quantized",
    "r2",
    "relu6",
    "residual",
    "resnet_block",
    "rms_norm",
    "rnn",
    "rotary",
    "selective_ssm",
    "selu",
    "sigmoid",
    "silu",
    "sinusoidal_positions",
    "smooth_l1",
    "smooth_max_pool2d",
    "softmax",
    "softplus",
    "spectral_norm",
    "swiglu",
    "top_k_accuracy",
    "transformer",
    "transformer_decoder",
    "transformer_encoder",
    "triplet",
    "vgg_block",
    "weight_norm",
]

explain_all(__all__, globals())


if not TYPE_CHECKING:  # for a type checker there is nothing else

    def __getattr__(name: str) -> object:
        raise missing("module 'ocannl.nn'", name, __all__, OF_NN)


def __dir__() -> list[str]:
    return sorted([*(name for name in globals() if name.startswith("__")), *__all__])
