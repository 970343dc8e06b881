// Parts of named tensors on the ranks of a job, and how they move between ranks.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "files/format.hpp"
#include "weft/world.hpp"

namespace weft::checkpoint {

// A part of a tensor that this rank holds or wants.
struct Piece {
  Entry tensor;       // as a whole; its dtype is the one that is saved and sent
  int64_t order = 0;  // among all tensors
  Box box;
  at::Tensor values;    // of the box's extent, with any strides
  bool counted = true;  // false: another rank holds the same elements and answers for them
};
using Pieces = std::vector<Piece>;

// Which ranks hold which boxes of one tensor.
struct TensorHolders {
  struct Holder {
    int rank;
    Box box;
    bool counted;
  };
  Entry tensor;
  std::vector<Holder> holders;  // by rank
  // Returns whether the counted boxes contain each element of the tensor exactly once.
  bool is_whole() const;
};

// Tells every rank what all hold, in one order. Collective; throws on every rank alike if ranks disagree on a
// tensor.
std::vector<TensorHolders> gather_holders(const Communicator& ranks, const Pieces& own);

// The pieces of this rank by tensor.
using PiecesByName = std::map<std::string, std::vector<const Piece*>>;
PiecesByName by_name(const Pieces& pieces);

// Brings to every rank the boxes of one tensor that it wants: `take` gets each part with its values, in the
// tensor's dtype. `wanted` names the same ranks and boxes everywhere. Collective; holds what this rank
// receives at once, and sends from the pieces themselves where a part is contiguous in them.
struct Wanted {
  int rank;
  Box box;
};
void exchange(const Communicator& ranks, const TensorHolders& known, const PiecesByName& own,
              const std::vector<Wanted>& wanted,
              const std::function<void(const Box& part, const at::Tensor& values)>& take);

}  // namespace weft::checkpoint
