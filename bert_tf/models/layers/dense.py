"""A linear map whose bias may be left to the operation that follows."""

import functools
import gc
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf

from bert_tf.models.layers.base import Layer, Shape, Weight, serializable
from pipelines.common.errors import InputError

# Arguments of Keras's layer that have an effect here.
_KERAS_ARGUMENTS = frozenset(
    ["name", "trainable", "dtype", "lora_rank", "lora_alpha", "quantization_config"]
)
_FACTORS = ("lora_kernel_a", "lora_kernel_b")


@serializable
class Dense(Layer, keras.layers.Dense):
    """Multiplies [rows, inputs] by a kernel, and adds a bias unless the caller does that.

    `enable_lora` (Hu et al., arXiv 2106.09685) and `quantize("int8")` are those of
    `keras.layers.Dense`.

    Args:
      inputs: Width of the input.
      units: Width of the output.
      initializer_range: Standard deviation of the initial kernel.
      use_bias: Whether it has a bias; otherwise `bias` is zero.
    """

    def __init__(
        self,
        inputs: int,
        units: int,
        initializer_range: float = 0.02,
        use_bias: bool = True,
        **kwargs,
    ):
        unknown = sorted(kwargs.keys() - _KERAS_ARGUMENTS)
        if unknown:
            raise TypeError(f"{type(self).__name__} takes no {', '.join(unknown)}")
        # Keras draws a seed for each random initializer; `build` makes the kernel's own.
        super().__init__(
            (None, inputs),
            units=units,
            use_bias=use_bias,
            kernel_initializer="zeros",
            bias_initializer="zeros",
            **kwargs,
        )
        self.inputs, self.initializer_range = inputs, initializer_range
        if not use_bias:
            self.bias: Any = np.zeros(units, np.float32)
        # Keras would check it at every call, and rejects the dict that heads take.
        self.input_spec = None
        self.supports_masking = False

    def members(self) -> tuple[Weight, ...]:
        """Kernel [inputs, units] and, if it has one, bias [units]."""
        shape = (self.inputs, self.units)
        kernel = Weight("kernel", shape, self.initializer_range, "_kernel")
        return (kernel, Weight("bias", (self.units,), "zeros")) if self.use_bias else (kernel,)

    def build(self, input_shape: object = None) -> None:
        """Creates the variables, and adapts them if the dtype policy or `lora_rank` requires it."""
        if self.built:
            return
        super().build(input_shape)
        if self.quantization_mode and not self.quantized:
            self.quantize(self.quantization_mode, config=self.quantization_config)
        if self.lora_rank:
            self.enable_lora(self.lora_rank, lora_alpha=self.lora_alpha)

    @property
    def kernel(self) -> Any:
        """The kernel including the LoRA update, float32 [inputs, units]."""
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
        """Floating-point operations for `rows` rows: 2 per multiply-add."""
        return 2 * rows * self.inputs * self.units

    def call(self, x: tf.Tensor, add_bias: bool = True) -> tf.Tensor:
        """Maps [rows, inputs] to [rows, units] in the dtype of x."""
        if self.quantized:
            y = self._int8_product(x)
        else:
            y = tf.matmul(x, tf.cast(tf.convert_to_tensor(self._kernel), x.dtype))
        if self.lora_enabled:
            y += self._low_rank_product(x)
        return y + tf.cast(self.bias, y.dtype) if add_bias and self.use_bias else y

    def _low_rank_product(self, x: tf.Tensor) -> tf.Tensor:
        """The LoRA term; adding the kernels instead would lose small updates in bfloat16."""
        factors = (self.lora_kernel_a, self.lora_kernel_b)
        a, b = (tf.cast(tf.convert_to_tensor(factor), x.dtype) for factor in factors)
        scale = tf.cast(self.lora_alpha / self.lora_rank, x.dtype)
        return tf.matmul(tf.matmul(x, a), b) * scale

    def _int8_product(self, x: tf.Tensor) -> tf.Tensor:
        """The product with an int8 kernel; each row is quantized by its maximum."""
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
        """Makes the kernel int8, with one scale per column; an InputError for another mode."""
        if mode != "int8":
            raise InputError(f"{self.name}: cannot be quantized to {mode!r}; use 'int8'.")
        # Keras collects garbage for each kernel that it replaces, which takes longer than
        # everything else once TensorFlow is loaded. There is nothing to collect.
        gc.freeze()
        try:
            keras.layers.Dense.quantize(self, mode, type_check=False, config=config)
        finally:
            gc.unfreeze()

    @property
    def variable_serialization_spec(self) -> dict:
        """The variables in files of Keras by mode of quantization; a bias of zeros is none."""
        spec = super().variable_serialization_spec
        absent = () if self.use_bias else ("bias",)
        return {mode: [n for n in names if n not in absent] for mode, names in spec.items()}

    def save_own_variables(self, store: Any) -> None:
        """Saves the kernel with the LoRA update merged; beside int8, the update is kept apart.

        Most of an update would be lost when the sum is rounded to int8.
        """
        apart = self.built and self.quantized and self.lora_enabled
        if apart:
            self.lora_enabled: bool = False  # or Keras merges it
        try:
            super().save_own_variables(store)
        finally:
            self.lora_enabled |= apart
        for name in _FACTORS if apart else ():
            store[name] = getattr(self, name)

    def load_own_variables(self, store: Any) -> None:
        """Loads what was saved; an update that was merged starts again at zero."""
        factor = self.lora_kernel_a.numpy() if self.lora_enabled else None
        super().load_own_variables(store)
        if factor is not None:
            # Keras sets both factors to zero, and then neither has a gradient.
            self.lora_kernel_a.assign(factor)
            for name in _FACTORS:
                if name in store:
                    getattr(self, name).assign(store[name])

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """The shape [rows, units] for [rows, inputs]."""
        if len(input_shape) < 2 or input_shape[-1] not in (None, self.inputs):
            raise InputError(f"{self.name}: takes [rows, {self.inputs}], not {list(input_shape)}.")
        return (*input_shape[:-1], self.units)

    def get_config(self) -> dict:
        """Arguments of the constructor, and later adaptations."""
        config = super().get_config()
        if self.lora_rank:
            config |= {"lora_rank": self.lora_rank, "lora_alpha": self.lora_alpha}
        if self.quantization_config is not None:
            config["quantization_config"] = keras.saving.serialize_keras_object(
                self.quantization_config
            )
        return config

    def keras_config(self) -> dict:
        """Arguments of all Keras layers; those of Keras's linear map differ from ours."""
        return keras.layers.Layer.get_config(self)

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None) -> Self:
        """Creates a layer from the result of `get_config`."""
        described = config.get("quantization_config")
        restored = keras.saving.deserialize_keras_object(described) if described else None
        return super().from_config(config | {"quantization_config": restored}, custom_objects)


def _int8_matmul(rows: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """The float32 product of int8 or floating-point rows and an int8 kernel."""
    if _has_accelerator():
        return tf.cast(keras.ops.matmul(rows, kernel), tf.float32)
    # TensorFlow's int8 product is ten times slower on a CPU. Sums of up to 1,040 products of
    # integers up to 127 are exact in float32.
    return tf.matmul(tf.cast(rows, tf.float32), tf.cast(kernel, tf.float32))


@functools.cache
def _has_accelerator() -> bool:
    return any(device.device_type != "CPU" for device in tf.config.list_physical_devices())
