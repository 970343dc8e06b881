// The update rules, and what they share: dtypes and options.
#pragma once

#include "weft/optim/optimizer.hpp"
#include "weft/optim/rule.hpp"

namespace weft::optim {

// Returns the dtype in which rules compute and keep their states for values of `dtype`: fp32 for half
// precision. (PyTorch keeps the states in half precision, where a second moment cannot decay: 0.999 v rounds
// to v in bf16, and the square of a small gradient to 0 in fp16.)
at::ScalarType computing_dtype(at::ScalarType dtype);

// Returns `given` with the rule's defaults for options that it lacks. Throws INVALID_ARGUMENT for an unknown
// option, with the nearest name, and for a value that the rule does not allow.
Hyper complete(const Rule& rule, Hyper given);
// Throws INVALID_ARGUMENT naming the rule and the option `name` unless `value` is finite.
void require_finite(const Rule& rule, const std::string& name, double value);

// Adam (Kingma, Ba 2015) and AdamW (Loshchilov, Hutter 2019), as in torch.optim, and with the names, options
// and defaults of Colossal-AI.
std::shared_ptr<const Rule> adam_rule();   // adds weight decay to the gradient
std::shared_ptr<const Rule> adamw_rule();  // decoupled weight decay
// Return Colossal-AI's three, which are one kernel on the CPU. The option adamw_mode chooses between Adam and
// AdamW; bias_correction can be switched off.
std::shared_ptr<const Rule> hybrid_adam_rule();
std::shared_ptr<const Rule> cpu_adam_rule();
std::shared_ptr<const Rule> fused_adam_rule();

// Rules that factor the second moment of a matrix into the means of its rows and of its columns. A parameter
// of more than two dimensions is a stack of matrices of its last two. One of fewer has a full second moment.

// Returns Adafactor (Shazeer, Stern 2018, arXiv:1804.04235, Algorithms 4 and 5), with the options of
// Colossal-AI and transformers. With relative_step the step size is min(lr, 1 / sqrt(t)), and at most 1e-6 t
// with warmup_init; without it, it is lr. scale_parameter multiplies it by max(eps2, RMS of the values).
// beta1 = 0 keeps no first moment.
std::shared_ptr<const Rule> adafactor_rule();

// Returns CAME (Luo et al. 2023, arXiv:2307.02047, Algorithm 2).
std::shared_ptr<const Rule> came_rule();

// Rules that scale the learning rate of each parameter by a trust ratio: the norm of its values over the norm
// of its step. Norms are of the whole parameter over all ranks. If one is zero, the ratio is 1.

// Returns LAMB (You et al. 2020, arXiv:1904.00962, Algorithm 2). bias_correction corrects the moments before
// the ratio is taken; with `adam` the ratio is 1.
std::shared_ptr<const Rule> lamb_rule();

// Returns LARS (You et al. 2017, arXiv:1708.03888, Algorithm 1). The momentum includes learning rate and
// trust ratio; the ratio is not clamped.
std::shared_ptr<const Rule> lars_rule();

// Lion: the sign of an interpolated momentum (Chen et al. 2023, arXiv:2302.06675, Algorithm 2).
std::shared_ptr<const Rule> lion_rule();

// Stochastic gradient descent with momentum, as torch.optim.SGD.
std::shared_ptr<const Rule> sgd_rule();

}  // namespace weft::optim
