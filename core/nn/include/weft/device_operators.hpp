// The torch operators that the engine calls by the device of their tensors, as profilers name them:
// weft::.... layer_operators.hpp and update_operators.hpp have their schemas. The engine has an
// implementation of each for host memory. The library of a device implements those for which it has kernels,
// with implement(); the engine asks the dispatcher before each call, and where there is none it uses
// operations of libtorch or, if it has none either, refuses with an error that names the device.
//
// Rules for all operators:
// - Tensors are contiguous and on one device unless a comment says otherwise. Nothing is checked twice: the
//   engine passes what the comments say.
// - Half precision is computed in fp32. Tensors in fp64 are passed only where a comment says so, and in host
//   memory to every operator. `exact` stands for fp64 for fp64 and for fp32 otherwise.
// - An implementation gives its work to the current stream and returns. It makes the host wait for nothing.
// - Results have the same bits in each run.
// - None is differentiable: the engine's autograd functions call them.
#pragma once

#include "weft/layer_operators.hpp"
#include "weft/update_operators.hpp"

namespace weft::operators {

// Calls visit(Operator()) for every operator of the two headers.
template <class Visit>
void for_each(const Visit& visit) {
  visit(RmsNorm());
  visit(RmsNormBackward());
  visit(LayerNorm());
  visit(LayerNormBackward());
  visit(Gated());
  visit(GatedBackward());
  visit(GeluBackward());
  visit(Rotate());
  visit(ColumnSums());
  visit(Dropout());
  visit(DropoutBackward());
  visit(Bernoulli());
  visit(CrossEntropy());
  visit(CrossEntropyBackward());
  visit(CrossEntropyWithGradient());
  visit(Rescale());
  visit(CrossEntropyParts());
  visit(CrossEntropyRebase());
  visit(CrossEntropyFinish());
  visit(MergeAttention());
  visit(NormPart());
  visit(Decide());
  visit(SumsOfSquares());
  visit(Adam());
  visit(Sgd());
  visit(Lion());
  visit(Lars());
  visit(LambMoments());
  visit(LambStep());
  visit(FactoredSums());
  visit(FactoredNorms());
  visit(FactoredAverage());
  visit(FactoredStep());
}

// Registers `function` with `library`, a torch::Library of the namespace weft and a dispatch key:
//   TORCH_LIBRARY_IMPL(weft, MyDevice, library) { implement<RmsNorm>(library, rms_norm); }
template <class Operator, class Library>
void implement(Library& library, typename Operator::Signature* function) {
  library.impl(Operator::kName, function);
}

}  // namespace weft::operators
