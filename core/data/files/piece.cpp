#include "files/piece.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "box/cover.hpp"
#include "comm/agreement.hpp"
#include "device/tensors.hpp"
#include "weft/torch/dtypes.hpp"

namespace weft::checkpoint {

using nlohmann::json;

bool TensorHolders::is_whole() const {
  std::vector<Box> counted;
  for (const Holder& holder : holders)
    if (holder.counted) counted.push_back(holder.box);
  return cover_once(tensor.shape, counted);
}

std::vector<TensorHolders> gather_holders(const Communicator& ranks, const Pieces& own) {
  const std::vector<std::string> all = gather_from_every_rank(ranks, [&] {
    json described = json::array();
    for (const Piece& piece : own)
      described.push_back({piece.order, piece.tensor.name, dtype_code(piece.tensor.dtype), piece.tensor.shape,
                           piece.box.offset, piece.box.extent, piece.counted});
    return described.dump();
  });
  std::map<std::pair<int64_t, std::string>, TensorHolders> all_holders;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    for (const json& part : json::parse(all[rank])) {
      const Entry tensor{part[1], scalar_type(part[2]), part[3]};
      TensorHolders& known = all_holders[{part[0], tensor.name}];
      if (known.holders.empty()) known.tensor = tensor;
      if (known.tensor.dtype != tensor.dtype || known.tensor.shape != tensor.shape)
        fail(WEFT_INTERNAL, "{} is ({}) of {} on rank {}, but ({}) of {} on rank {}", tensor.name,
             fmt::join(known.tensor.shape, ", "), c10::toString(known.tensor.dtype),
             known.holders.front().rank, fmt::join(tensor.shape, ", "), c10::toString(tensor.dtype), rank);
      known.holders.push_back({static_cast<int>(rank), {part[4], part[5]}, part[6]});
    }
  }
  std::vector<TensorHolders> ordered;
  for (auto& [key, known] : all_holders) ordered.push_back(std::move(known));
  return ordered;
}

PiecesByName by_name(const Pieces& pieces) {
  PiecesByName named;
  for (const Piece& piece : pieces) named[piece.tensor.name].push_back(&piece);
  return named;
}

namespace {

struct Transfer {
  int from, to;
  Box part;
};

// What a rank has itself it is not sent; of what several hold only the rank that counts it sends.
std::vector<Transfer> plan_transfers(const TensorHolders& known, const std::vector<Wanted>& wanted) {
  std::vector<Transfer> transfers;
  for (const Wanted& want : wanted) {
    const bool has_it = std::any_of(known.holders.begin(), known.holders.end(), [&](const auto& part) {
      return part.rank == want.rank && intersection(part.box, want.box) == want.box;
    });
    if (has_it) {
      transfers.push_back({want.rank, want.rank, want.box});
      continue;
    }
    for (const TensorHolders::Holder& part : known.holders) {
      if (!part.counted) continue;
      if (auto shared = intersection(part.box, want.box))
        transfers.push_back({part.rank, want.rank, std::move(*shared)});
    }
  }
  return transfers;
}

at::Tensor own_part(const std::vector<const Piece*>& own, const Box& part) {
  for (const Piece* piece : own)
    if (intersection(piece->box, part) == part) return view_of(piece->values, piece->box, part);
  fail(WEFT_INTERNAL, "a part of a tensor that was said to be on this rank is not here");
}

}  // namespace

void exchange(const Communicator& ranks, const TensorHolders& known, const PiecesByName& own,
              const std::vector<Wanted>& wanted,
              const std::function<void(const Box& part, const at::Tensor& values)>& take) {
  constexpr uint32_t kTag = 0;  // messages of a pair arrive in the order of the plan
  const auto found = own.find(known.tensor.name);
  const std::vector<const Piece*> mine = found == own.end() ? std::vector<const Piece*>() : found->second;
  const at::ScalarType dtype = known.tensor.dtype;
  const auto own_values = [&](const Box& part) {
    return device::on_host(own_part(mine, part)).to(dtype).contiguous();
  };
  struct Received {
    const Box* part;
    at::Tensor values;
    Work work;
  };
  std::vector<Received> received;
  std::vector<Work> sent;
  const std::vector<Transfer> transfers = plan_transfers(known, wanted);
  for (const Transfer& transfer : transfers) {
    if (transfer.from == transfer.to) {
      if (transfer.to == ranks.rank()) take(transfer.part, own_values(transfer.part));
    } else if (transfer.from == ranks.rank()) {
      sent.push_back(ranks.send(own_values(transfer.part), transfer.to, kTag));
    } else if (transfer.to == ranks.rank()) {
      const at::Tensor values = at::empty(transfer.part.extent, dtype);
      received.push_back({&transfer.part, values, ranks.recv(values, transfer.from, kTag)});
    }
  }
  for (Received& message : received) {
    message.work.wait();
    take(*message.part, message.values);
    message.values.reset();
  }
  for (Work& work : sent) work.wait();
}

}  // namespace weft::checkpoint
