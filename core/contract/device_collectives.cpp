// Rules of devices: collectives and messages of their tensors, against sums that the host makes of the same
// values, which every rank can compute for all ranks.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/zeros.h>

#include "base/text.hpp"
#include "contract/device_rules.hpp"
#include "device/stream.hpp"
#include "device/tensors.hpp"

namespace weft::contract {

namespace {

// Returns the values of one rank: whole numbers, whose sums are exact in every type.
at::Tensor values_of_rank(int rank, at::IntArrayRef sizes, at::ScalarType dtype) {
  const auto seed = static_cast<uint64_t>(rank) + 1;
  if (dtype == at::kBool) return host_values(sizes, dtype, seed);
  return host_values(sizes, at::kLong, seed).abs().remainder(30).to(dtype);
}

class Collectives {
 public:
  Collectives(const World& world, Findings& findings)
      : ranks_(world.communicator()), size_(world.size()), rank_(world.rank()), findings_(findings) {}

  void check_all_reduce() {
    for (const at::ScalarType dtype :
         {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong, at::kInt, at::kByte})
      for (const int64_t elements : {1, 1003}) {
        const auto look = [&](const char* rule, ReduceOp op,
                              at::Tensor (*join)(const at::Tensor&, const at::Tensor&)) {
          at::Tensor expected = values_of_rank(0, {elements}, dtype);
          for (int rank = 1; rank < size_; ++rank)
            expected = join(expected, values_of_rank(rank, {elements}, dtype));
          const at::Tensor inout = there(own({elements}, dtype));
          ranks_.all_reduce(inout, op).wait();
          findings_.look(rule, within(fmt::format("{} elements of {}", elements, at::toString(dtype)),
                                      exact_difference(inout, expected)));
        };
        look("all_reduce sums over the ranks", ReduceOp::kSum,
             [](const at::Tensor& a, const at::Tensor& b) { return a + b; });
        look("all_reduce takes the largest of the ranks", ReduceOp::kMax,
             [](const at::Tensor& a, const at::Tensor& b) { return at::maximum(a, b); });
        look("all_reduce takes the smallest of the ranks", ReduceOp::kMin,
             [](const at::Tensor& a, const at::Tensor& b) { return at::minimum(a, b); });
      }
    at::Tensor any = values_of_rank(0, {100}, at::kBool);
    for (int rank = 1; rank < size_; ++rank) any = any.logical_or(values_of_rank(rank, {100}, at::kBool));
    const at::Tensor inout = there(own({100}, at::kBool));
    ranks_.all_reduce(inout).wait();
    findings_.look("all_reduce sums over the ranks", within("truth values", exact_difference(inout, any)));
  }

  void check_gathers() {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kLong, at::kBool}) {
      const at::Tensor output = at::empty({int64_t{4} * size_, 25}, on_it(dtype));
      ranks_.all_gather(output, there(own({4, 25}, dtype))).wait();
      findings_.look("all_gather concatenates the parts of the ranks",
                     within(at::toString(dtype), exact_difference(output, of_all({4, 25}, dtype))));
    }
    for (int root = 0; root < size_; ++root) {
      const at::Tensor inout = there(own({77}, at::kFloat));
      ranks_.broadcast(inout, root).wait();
      findings_.look("broadcast gives the values of the root",
                     within(fmt::format("root {}", root),
                            exact_difference(inout, values_of_rank(root, {77}, at::kFloat))));
    }
  }

  void check_reduce_scatter() {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kLong}) {
      constexpr int64_t kPart = 33;
      at::Tensor sum = values_of_rank(0, {kPart * size_}, dtype), most = sum;
      for (int rank = 1; rank < size_; ++rank) {
        const at::Tensor other = values_of_rank(rank, {kPart * size_}, dtype);
        sum = sum + other;
        most = at::maximum(most, other);
      }
      const auto look = [&](const char* rule, ReduceOp op, const at::Tensor& all) {
        const at::Tensor output = at::empty({kPart}, on_it(dtype));
        ranks_.reduce_scatter(output, there(own({kPart * size_}, dtype)), op).wait();
        findings_.look(
            rule, within(at::toString(dtype), exact_difference(output, all.narrow(0, kPart * rank_, kPart))));
      };
      look("reduce_scatter gives each rank its part of the sum", ReduceOp::kSum, sum);
      look("reduce_scatter gives each rank its part of the largest values", ReduceOp::kMax, most);
    }
  }

  // Rank r sends (r + to) % 3 rows to rank `to`, so that some send nothing.
  void check_all_to_all() {
    const auto rows = [](int from, int to) { return int64_t{from + to} % 3; };
    for (const bool equal : {true, false}) {
      const auto rows_of = [&](int from, int to) { return equal ? int64_t{2} : rows(from, to); };
      std::vector<int64_t> sent, received;
      for (int peer = 0; peer < size_; ++peer) {
        sent.push_back(rows_of(rank_, peer));
        received.push_back(rows_of(peer, rank_));
      }
      const auto input_of = [&](int rank) {
        int64_t total = 0;
        for (int peer = 0; peer < size_; ++peer) total += rows_of(rank, peer);
        return values_of_rank(rank, {total, 9}, at::kFloat);
      };
      TensorList parts;
      for (int peer = 0; peer < size_; ++peer) {
        int64_t before = 0;
        for (int other = 0; other < rank_; ++other) before += rows_of(peer, other);
        parts.push_back(input_of(peer).narrow(0, before, rows_of(peer, rank_)));
      }
      const at::Tensor expected = at::cat(parts), output = at::zeros(expected.sizes(), on_it());
      ranks_.all_to_all(output, there(input_of(rank_)), received, sent).wait();
      findings_.look(
          equal ? "all_to_all gives each rank its parts" : "all_to_all takes parts of unequal sizes",
          exact_difference(output, expected));
    }
  }

  void check_messages() {
    constexpr const char* kRule = "messages arrive in the order in which they were sent";
    const int next = (rank_ + 1) % size_, before = (rank_ + size_ - 1) % size_;
    const at::Tensor received = at::zeros({500}, on_it());
    ranks_.exchange(there(own({500}, at::kFloat)), next, received, before, 3).wait();
    findings_.look("ranks exchange messages around a ring",
                   exact_difference(received, values_of_rank(before, {500}, at::kFloat)));
    for (int peer = 1; peer < size_; ++peer) {
      if (rank_ != 0 && rank_ != peer) continue;
      // Two from rank 0, which are under way at once, and one back.
      TensorList tensors;
      for (const int64_t number : {0, 1, 2})
        tensors.push_back(rank_ == (number < 2 ? 0 : peer) ? there(message(number))
                                                           : at::zeros({300}, on_it()));
      const int other = rank_ == 0 ? peer : 0;
      const auto pass = [&](size_t number, bool sends) {
        return sends ? ranks_.send(tensors[number], other, 5) : ranks_.recv(tensors[number], other, 5);
      };
      Work first = pass(0, rank_ == 0), second = pass(1, rank_ == 0);
      first.wait();
      second.wait();
      pass(2, rank_ != 0).wait();
      for (const int64_t number : {0, 1, 2})
        findings_.look(kRule,
                       within(fmt::format("message {}", number + 1),
                              exact_difference(tensors[static_cast<size_t>(number)], message(number))));
    }
  }

  // A collective reads what its stream was given before, and what comes after wait() reads its result.
  void check_order() {
    constexpr int64_t kElements = 1 << 20;
    const at::Tensor x = at::full({kElements}, 1.0, on_it()), y = at::full({kElements}, 2.0, on_it());
    for (int step = 0; step < 20; ++step) x.add_(1);
    Work first = ranks_.all_reduce(x), second = ranks_.all_reduce(y);
    const at::Tensor between = at::full({kElements}, 3.0, on_it()) * 2;
    second.wait();
    y.add_(1);
    first.wait();
    const at::Tensor sum = x + y + between;
    const double expected = 21.0 * size_ + 2.0 * size_ + 1 + 6;
    findings_.look("a collective comes between the work before it and what follows wait()",
                   exact_difference(sum, at::full({kElements}, expected)));
    device::synchronise();
    at::Tensor z;
    {
      const device::OnStream side(device::Stream::make());
      z = at::full({kElements}, 1.0, on_it());
      for (int step = 0; step < 20; ++step) z.add_(1);
      ranks_.all_reduce(z).wait();
      z.add_(1);
      device::Stream::of_thread().synchronise();
    }
    findings_.look("collectives work on other streams, too",
                   exact_difference(z, at::full({kElements}, 21.0 * size_ + 1)));
  }

  void check_subset() {
    if (size_ < 3) return;
    const Communicator two = ranks_.subset({2, 0});
    if (!two) return;
    const at::Tensor inout = there(own({50}, at::kFloat));
    two.all_reduce(inout).wait();
    findings_.look(
        "a group of some ranks has collectives of its own",
        exact_difference(inout, values_of_rank(0, {50}, at::kFloat) + values_of_rank(2, {50}, at::kFloat)));
  }

 private:
  at::Tensor own(at::IntArrayRef sizes, at::ScalarType dtype) const {
    return values_of_rank(rank_, sizes, dtype);
  }
  at::Tensor of_all(at::IntArrayRef sizes, at::ScalarType dtype) const {
    TensorList parts;
    for (int rank = 0; rank < size_; ++rank) parts.push_back(values_of_rank(rank, sizes, dtype));
    return at::cat(parts);
  }
  static at::Tensor message(int64_t number) {
    return host_values({300}, at::kFloat, static_cast<uint64_t>(number) + 40);
  }

  const Communicator& ranks_;
  const int size_, rank_;
  Findings& findings_;
};

}  // namespace

void check_collectives(const World& world, Findings& findings) {
  Collectives all(world, findings);
  all.check_all_reduce();
  all.check_gathers();
  all.check_reduce_scatter();
  all.check_all_to_all();
  all.check_messages();
  all.check_order();
  all.check_subset();
}

}  // namespace weft::contract
