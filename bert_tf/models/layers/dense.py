"""A linear map of rows, its bias left to the operation that follows."""

import functools
import gc
from typing import Any, Self

import keras
import tensorflow as tf

from bert_tf.models.layers.base import Layer, Shape, Weight, serializable
from pipelines.common.errors import InputError

# What Keras's layer may be given; it has other arguments, which are of no effect here.
_KERAS_ARGUMENTS = frozenset(
    ["name", "trainable", "dtype", "lora_rank", "lora_alpha", "quantization_config"]
)


@serializable
class Dense(Layer, keras.layers.Dense):
    """Multiplies [rows, inputs] by a kernel and adds a bias, or leaves that to the caller.

    LoRA (Hu et al., arXiv 2106.09685) and int8 kernels are those of `keras.layers.Dense`:
    `enable_lora`, and `quantize("int8")`.

    Args:
      inputs: width of the input.
      units: width of the output.
      initializer_range: standard deviation of the kernel's initial values.
    """

    def __init__(self, inputs: int, units: int, initializer_range: float = 0.02, **kwargs):
        unknown = sorted(kwargs.keys() - _KERAS_ARGUMENTS)
        if unknown:
            raise TypeError(f"{type(self).__name__} takes no {', '.join(unknown)}")
        # Initializers that draw nothing: the kernel's own is made when it is created.
        super().__init__(
            units=units, kernel_initializer="zeros", bias_initializer="zeros", **kwargs
        )
        self.inputs = inputs
        self.initializer_range = initializer_range
        # Keras's would be checked at every call, and know nothing of heads that take a dict.
        self.input_spec = None
        self.supports_masking = False

    def members(self) -> tuple[Weight, ...]:
        """Kernel [inputs, units] and bias [units]."""
        return (
            Weight("kernel", (self.inputs, self.units), self.initializer_range, "_kernel"),
            Weight("bias", (self.units,), "zeros"),
        )

    @property
    def expected_shape(self) -> Any:
        """[rows, inputs]."""
        return (None, self.inputs)

    def build(self, input_shape: object = None) -> None:
        """Creates the variables; where the dtype policy or `lora_rank` says so, adapts them."""
        if self.built:
            return
        super().build(input_shape)
        if self.quantization_mode and not self.quantized:
            self.quantize(self.quantization_mode, config=self.quantization_config)
        if self.lora_rank:
            self.enable_lora(self.lora_rank, lora_alpha=self.lora_alpha)

    @property
    def kernel(self) -> Any:
        """The kernel with the update of LoRA, if there is one, float32 [inputs, units]."""
        if not self.built:
            raise AttributeError(f"{self.name} has no kernel before it is built.")
        kernel = self._kernel
        if self.quantized:
            kernel = tf.cast(kernel, tf.float32) / tf.cast(self.kernel_scale, tf.float32)
        if not self.lora_enabled:
            return kernel
        update = tf.matmul(*map(tf.convert_to_tensor, (self.lora_kernel_a, self.lora_kernel_b)))
        return tf.convert_to_tensor(kernel) + self.lora_alpha / self.lora_rank * update

    def value_of(self, weight: Weight) -> Any:
        """The value of a variable as the layer computes with it."""
        return getattr(self, weight.name)

    @property
    def quantized(self) -> bool:
        """Whether the kernel is int8."""
        return getattr(self, "_is_quantized", False)

    def flops(self, rows: int) -> int:
        """Floating-point operations of so many rows: two for each multiply-add."""
        return 2 * rows * self.inputs * self.units

    def call(self, x: tf.Tensor, add_bias: bool = True) -> tf.Tensor:
        """Maps [rows, inputs] to [rows, units] in the dtype of x."""
        if self.quantized:
            y = self._int8_product(x)
        else:
            y = tf.matmul(x, tf.cast(tf.convert_to_tensor(self._kernel), x.dtype))
        if self.lora_enabled:
            y += self._low_rank_product(x)
        return y + tf.cast(self.bias, y.dtype) if add_bias else y

    def _low_rank_product(self, x: tf.Tensor) -> tf.Tensor:
        """What LoRA adds; the sum of both kernels would round small updates away in bfloat16."""
        factors = (self.lora_kernel_a, self.lora_kernel_b)
        a, b = (tf.cast(tf.convert_to_tensor(factor), x.dtype) for factor in factors)
        scale = tf.cast(self.lora_alpha / self.lora_rank, x.dtype)
        return tf.matmul(tf.matmul(x, a), b) * scale

    def _int8_product(self, x: tf.Tensor) -> tf.Tensor:
        """The product with an int8 kernel, of rows that are quantized, too, each by its maximum."""
        kernel = tf.convert_to_tensor(self._kernel)
        kernel_scale = tf.cast(self.kernel_scale, tf.float32)

        @tf.custom_gradient
        def apply(x: tf.Tensor) -> tuple[tf.Tensor, Any]:
            rows, scale = x, kernel_scale
            if self.inputs_quantizer:
                rows, row_scale = self.inputs_quantizer(tf.cast(x, tf.float32), axis=-1)
                scale *= row_scale
            y = _int8_matmul(rows, kernel) / scale

            def gradient(upstream: tf.Tensor) -> tf.Tensor:
                real = tf.cast(tf.cast(kernel, tf.float32) / kernel_scale, upstream.dtype)
                return tf.matmul(upstream, real, transpose_b=True)

            return tf.cast(y, x.dtype), gradient

        return apply(x)

    def quantize(self, mode: str, type_check: bool = True, config: Any = None) -> None:
        """Makes the kernel int8, with a scale for each column.

        Args:
          mode: "int8".
          type_check: of no use here; Keras gives it.
          config: see `keras.quantizers.Int8QuantizationConfig`.

        Raises:
          InputError: another mode.
        """
        if mode != "int8":
            raise InputError(f"{self.name}: cannot be quantized to {mode!r}; use 'int8'.")
        # Keras collects garbage for each kernel that it drops. Where TensorFlow is loaded that
        # takes longer than all else; there is nothing to collect.
        gc.freeze()
        try:
            keras.layers.Dense.quantize(self, mode, type_check=False, config=config)
        finally:
            gc.unfreeze()

    def load_own_variables(self, store: Any) -> None:
        """Takes a kernel that LoRA was merged into; the update is zero again, and can be trained.

        Args:
          store: values by number, as `save_own_variables` gives them.
        """
        factor = self.lora_kernel_a.numpy() if self.lora_enabled else None
        super().load_own_variables(store)
        if factor is not None:
            # Keras sets both factors to zero, where neither has a gradient.
            self.lora_kernel_a.assign(factor)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """[rows, units] of [rows, inputs].

        Raises:
          InputError: the input has another width.
        """
        if len(input_shape) < 2 or input_shape[-1] not in (None, self.inputs):
            raise InputError(f"{self.name}: takes [rows, {self.inputs}], not {list(input_shape)}.")
        return (*input_shape[:-1], self.units)

    def get_config(self) -> dict:
        """The arguments of the constructor, and what was done since."""
        config = super().get_config() | {
            "inputs": self.inputs,
            "units": self.units,
            "initializer_range": self.initializer_range,
        }
        if self.lora_rank:
            config |= {"lora_rank": self.lora_rank, "lora_alpha": self.lora_alpha}
        if self.quantization_config is not None:
            described = keras.saving.serialize_keras_object(self.quantization_config)
            config["quantization_config"] = described
        return config

    def keras_config(self) -> dict:
        """The arguments of all Keras layers: those of Keras's linear map are others."""
        return keras.layers.Layer.get_config(self)

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None) -> Self:
        """Makes what `get_config` describes."""
        described = config.get("quantization_config")
        restored = keras.saving.deserialize_keras_object(described) if described else None
        return super().from_config(config | {"quantization_config": restored}, custom_objects)


def _int8_matmul(rows: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """The float32 product of rows, int8 or real, and an int8 kernel."""
    if _has_accelerator():
        return tf.cast(keras.ops.matmul(rows, kernel), tf.float32)
    # TensorFlow's int8 product takes ten times as long on a CPU. Products of whole numbers up to
    # 127 and their sums are exact in float32, as long as there are no more than 1,040.
    return tf.matmul(tf.cast(rows, tf.float32), tf.cast(kernel, tf.float32))


@functools.cache
def _has_accelerator() -> bool:
    return any(device.device_type != "CPU" for device in tf.config.list_physical_devices())
