"""AdamW, the optimizer of BERT."""

import keras
import tensorflow as tf

from bert_tf.training.moments import MomentOptimizer


@keras.saving.register_keras_serializable("bert_tf")
class AdamW(MomentOptimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101).

    The decay is part of the update, which the learning rate scales; biases and
    LayerNorm weights do not decay. One fused operation updates a variable.
    Arguments are those of `MomentOptimizer`.
    """

    def __init__(self, *args, name: str = "adamw", **kwargs):
        super().__init__(*args, name=name, **kwargs)

    def _update(
        self,
        variable: keras.Variable,
        mean: tf.Variable,
        square: tf.Variable,
        gradient: tf.Tensor,
        rate: tf.Tensor,
        powers: tuple[tf.Tensor | float, tf.Tensor | float],
    ) -> None:
        value = variable.value
        if self.decays(variable):
            loss = rate * self.decay * tf.convert_to_tensor(value)
            tf.raw_ops.AssignSubVariableOp(resource=value.handle, value=loss)
        tf.raw_ops.ResourceApplyAdam(
            var=value.handle,
            m=mean.handle,
            v=square.handle,
            beta1_power=powers[0],
            beta2_power=powers[1],
            lr=rate,
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=gradient,
            use_locking=True,
        )
