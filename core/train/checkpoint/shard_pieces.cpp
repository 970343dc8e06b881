#include "checkpoint/shard_pieces.hpp"

namespace weft::checkpoint {

namespace {

void add_range(const Shard& shard, int64_t begin, int64_t count, const Piece& like, const at::Tensor& values,
               Pieces& out) {
  for_each_box(shard.param->cut, shard.begin + begin, count, values.narrow(0, begin, count),
               [&](const Box& box, const at::Tensor& held) {
                 Piece piece = like;
                 piece.box = box;
                 piece.values = held;
                 out.push_back(std::move(piece));
               });
}

}  // namespace

void add_held(const Shard& shard, const Entry& tensor, int64_t order, const at::Tensor& values, Pieces& out) {
  if (shard.counted_count < shard.count)
    add_range(shard, 0, shard.count, {tensor, order, {}, {}, false}, values, out);
  add_range(shard, shard.counted_begin, shard.counted_count, {tensor, order, {}, {}, true}, values, out);
}

void add_wanted(const Shard& shard, const Entry& tensor, int64_t order, const at::Tensor& values,
                Pieces& out) {
  add_range(shard, 0, shard.count, {tensor, order, {}, {}, true}, values, out);
}

}  // namespace weft::checkpoint
