// The tables that strategies call: parameters, communicators, memory, publishing.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error_sink.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "train/training/recorder.hpp"
#include "training/publish.hpp"

namespace weft::test {

namespace {

using Start = std::function<weft_status(weft_work** own, weft_error* error)>;

void finish(const Start& start) {
  weft_work* work = nullptr;
  call([&](weft_error* e) { return start(&work, e); });
  call([&](weft_error* e) { return comm_services().wait(work, e); });
  comm_services().release(work);
}

void read(weft_param* param, int64_t begin, int64_t count, const at::Tensor& destination) {
  call([&](weft_error* e) {
    return model_services().param_read(param, begin, count, handle_of(destination), e);
  });
}

void bind(weft_param* param, const at::Tensor& storage) {
  call([&](weft_error* e) { return model_services().param_bind(param, handle_of(storage), e); });
}

TEST(Mesh, RefusesWhatDoesNotFitTheRanks) {
  const auto with_mesh = [](std::function<void(weft_mesh*)> describe) {
    Recorder recorder;
    recorder.describe_mesh = std::move(describe);
    make_training(launch(), make_toy(), recorder);
  };
  EXPECT_ERROR(with_mesh([](weft_mesh* mesh) { mesh->size[axis::kData] = 3; }), WEFT_INVALID_ARGUMENT,
               "recorder", "needs 3 ranks", "there are 1");
  EXPECT_ERROR(with_mesh([](weft_mesh* mesh) { mesh->size[axis::kStages] = 0; }), WEFT_INVALID_ARGUMENT,
               "needs 0 ranks");
  EXPECT_ERROR(with_mesh([](weft_mesh* mesh) {
                 for (const int axis : {axis::kData, axis::kReplica}) mesh->size[axis] = 0x80000000;
                 for (const int axis : {axis::kStages, axis::kExperts}) mesh->size[axis] = 0x80000000;
               }),
               WEFT_INVALID_ARGUMENT, "there are 1");
  EXPECT_ERROR(with_mesh([](weft_mesh* mesh) { mesh->size[axis::kTensorColumn] = 2; }), WEFT_INVALID_ARGUMENT,
               "axis has 1 ranks", "1 x 1 x 2");
}

WEFT_RANKS_TEST(Mesh, RefusesATensorAxis, 2) {
  Recorder recorder;
  recorder.describe_mesh = [](weft_mesh* mesh) {
    mesh->size[axis::kData] = 1;
    mesh->size[axis::kTensor] = 2;
  };
  EXPECT_ERROR(make_training(world, make_toy(), recorder), WEFT_FAILED_PRECONDITION, "tensor axis", "a plan");
}

WEFT_RANKS_TEST(Mesh, HasAGroupForEverySetOfAxes, 4) {
  Recorder recorder;
  recorder.describe_mesh = [](weft_mesh* mesh) { mesh->size[axis::kData] = mesh->size[axis::kReplica] = 2; };
  const auto training = make_training(world, make_toy(), recorder);
  EXPECT_EQ(training->bindings().mesh().data_size(), 4);
  EXPECT_EQ(training->bindings().mesh().data_rank(), world.rank());
  const auto group = [&](uint32_t axes) { return comm_services().comm(recorder.training, axes); };
  weft_comm* const data = group(1u << axis::kData);
  weft_comm* const replica = group(1u << axis::kReplica);
  EXPECT_EQ(comm_services().size(data), 2);
  EXPECT_EQ(comm_services().rank(data), world.rank() % 2);
  EXPECT_EQ(comm_services().rank(replica), world.rank() / 2);
  const auto named = [&](std::string_view name) {
    uint32_t axes = 0;
    call([&](weft_error* e) { return comm_services().axes(recorder.training, borrow(name), &axes, e); });
    return group(axes);
  };
  EXPECT_EQ(comm_services().size(named("samples")), 4);
  EXPECT_EQ(comm_services().size(named("stages")), 1);
  EXPECT_ERROR(named("sample"), WEFT_NOT_FOUND, "\"sample\"", "samples");
  // Axes of size 1 change nothing. The call is not collective, so one rank may make it alone.
  if (world.rank() == 1) {
    EXPECT_EQ(group(1u << axis::kData | 1u << axis::kTensor), data);
    EXPECT_EQ(comm_services().size(group(1u << axis::kStages)), 1);
  }
}

WEFT_RANKS_TEST(Comm, ReducesAndGathers, 2, 3) {
  Recorder recorder;
  const auto training = make_training(world, make_toy(), recorder);
  const auto& comm = comm_services();
  weft_comm* const data = comm.comm(recorder.training, 1u << axis::kData);
  const int64_t size = world.size(), rank = world.rank();
  EXPECT_EQ(comm.rank(data), rank);
  EXPECT_EQ(comm.size(data), size);

  at::Tensor sum = at::full({3}, rank + 1.0);
  finish([&](auto own, auto e) { return comm.all_reduce(data, handle_of(sum), WEFT_REDUCE_SUM, own, e); });
  EXPECT_TRUE(sum.equal(at::full({3}, size * (size + 1) / 2.0)));
  at::Tensor most = at::full({1}, rank, at::kLong), least = most.clone();
  finish([&](auto own, auto e) {
    return comm.all_reduce(data, handle_of(most), WEFT_REDUCE_MAX | WEFT_REDUCE_CONTROL, own, e);
  });
  finish([&](auto own, auto e) { return comm.all_reduce(data, handle_of(least), WEFT_REDUCE_MIN, own, e); });
  EXPECT_EQ(most.item<int64_t>(), size - 1);
  EXPECT_EQ(least.item<int64_t>(), 0);

  const at::Tensor all = at::empty({2 * size});
  finish([&](auto own, auto e) {
    return comm.all_gather(data, handle_of(all), handle_of(at::full({2}, double(rank))), own, e);
  });
  EXPECT_TRUE(all.equal(at::arange(size).repeat_interleave(2).to(at::kFloat)));
  const at::Tensor part = at::empty({2});
  finish([&](auto own, auto e) {
    return comm.reduce_scatter(data, handle_of(part), handle_of(all), WEFT_REDUCE_SUM, own, e);
  });
  EXPECT_TRUE(part.equal(at::full({2}, double(rank * size))));
  const at::Tensor shared = at::full({2}, double(rank));
  finish([&](auto own, auto e) { return comm.broadcast(data, handle_of(shared), 1, own, e); });
  EXPECT_TRUE(shared.equal(at::ones({2})));
}

WEFT_RANKS_TEST(Comm, SendsAndExchanges, 3) {
  Recorder recorder;
  const auto training = make_training(world, make_toy(), recorder);
  const auto& comm = comm_services();
  weft_comm* const data = comm.comm(recorder.training, 1u << axis::kData);
  const int64_t rank = world.rank(), next = (rank + 1) % 3, last = (rank + 2) % 3;

  // Rank r sends r + 1 rows to every rank.
  const std::vector<int64_t> given(3, rank + 1), taken = {1, 2, 3};
  const at::Tensor input = at::full({3 * (rank + 1), 2}, double(rank)), output = at::empty({6, 2});
  finish([&](auto own, auto e) {
    return comm.all_to_all(data, handle_of(output), handle_of(input), taken.data(), given.data(), own, e);
  });
  EXPECT_TRUE(output.select(1, 0).equal(at::tensor({0., 1., 1., 2., 2., 2.}, at::kFloat)));
  const at::Tensor equal = at::empty({3});
  finish([&](auto own, auto e) {
    return comm.all_to_all(data, handle_of(equal), handle_of(at::full({3}, double(rank))), nullptr, nullptr,
                           own, e);
  });
  EXPECT_TRUE(equal.equal(at::tensor({0., 1., 2.}, at::kFloat)));

  const at::Tensor mine = at::full({2}, double(rank)), theirs = at::empty({2});
  weft_work* sent = nullptr;
  call([&](weft_error* e) { return comm.send(data, handle_of(mine), next, 7, &sent, e); });
  finish([&](auto own, auto e) { return comm.recv(data, handle_of(theirs), last, 7, own, e); });
  call([&](weft_error* e) { return comm.wait(sent, e); });
  comm.release(sent);
  comm.release(nullptr);
  EXPECT_TRUE(theirs.equal(at::full({2}, double(last))));

  weft_comm* pair = nullptr;
  const std::vector<uint32_t> members = {0, 2};
  call([&](weft_error* e) { return comm.subset(data, members.data(), 2, &pair, e); });
  ASSERT_EQ(pair == nullptr, rank == 1);
  if (pair != nullptr) {
    EXPECT_EQ(comm.rank(pair), rank / 2);
    const at::Tensor sum = at::full({1}, double(rank + 1));
    finish([&](auto own, auto e) { return comm.all_reduce(pair, handle_of(sum), WEFT_REDUCE_SUM, own, e); });
    EXPECT_EQ(sum.item<double>(), 4);
  }
  call([&](weft_error* e) { return comm.barrier(data, e); });
}

WEFT_RANKS_TEST(Comm, RefusesWrongArgumentsBeforeAnythingIsSent, 2) {
  Recorder recorder;
  const auto training = make_training(world, make_toy(), recorder);
  const auto& comm = comm_services();
  weft_comm* const data = comm.comm(recorder.training, 1u << axis::kData);
  const at::Tensor three = at::ones({3}), strided = at::ones({4, 2}).select(1, 0);
  const auto reduce = [&](const at::Tensor& tensor, uint32_t op) {
    finish([&](auto own, auto e) { return comm.all_reduce(data, handle_of(tensor), op, own, e); });
  };
  EXPECT_ERROR(reduce(three, 9), WEFT_INVALID_ARGUMENT, "9");
  EXPECT_ERROR(reduce(strided, WEFT_REDUCE_SUM), WEFT_INVALID_ARGUMENT, "contiguous");
  EXPECT_ERROR(reduce(at::Tensor(), WEFT_REDUCE_SUM), WEFT_INVALID_ARGUMENT, "undefined");
  EXPECT_ERROR(finish([&](auto own, auto e) { return comm.broadcast(data, handle_of(three), 2, own, e); }),
               WEFT_INVALID_ARGUMENT, "root", "2");
  EXPECT_ERROR(finish([&](auto own, auto e) {
                 return comm.all_gather(data, handle_of(three), handle_of(three), own, e);
               }),
               WEFT_INVALID_ARGUMENT, "output");
  reduce(three, WEFT_REDUCE_SUM);
  EXPECT_TRUE(three.equal(at::full({3}, 2.0)));
}

TEST(Parameters, AreReadByRanges) {
  Recorder recorder;
  recorder.configure = [&](weft_training* training) {
    weft_param* const param = training->find_param("blocks.1.linear.weight");
    ASSERT_EQ(param->count(), 36);
    EXPECT_ERROR(read(param, -1, 2, at::empty({2})), WEFT_OUT_OF_RANGE, "blocks.1.linear.weight");
    EXPECT_ERROR(read(param, 35, 2, at::empty({2})), WEFT_OUT_OF_RANGE, "36 elements");
    EXPECT_ERROR(read(param, INT64_MAX, 2, at::empty({2})), WEFT_OUT_OF_RANGE, "36 elements");
    EXPECT_ERROR(read(param, 0, INT64_MAX, at::empty({2})), WEFT_OUT_OF_RANGE, "36 elements");
    EXPECT_ERROR(read(param, 0, 4, at::empty({3})), WEFT_OUT_OF_RANGE, "into 3 elements");
    EXPECT_ERROR(read(param, 0, 4, at::empty({4, 2}).select(1, 0)), WEFT_OUT_OF_RANGE, "contiguous");
    const at::Tensor whole = at::empty({36});
    read(param, 0, 36, whole);
    for (const auto& [begin, count] :
         std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {5, 7}, {30, 6}, {36, 0}}) {
      const at::Tensor part = at::empty({count});
      read(param, begin, count, part);
      EXPECT_TRUE(part.equal(whole.narrow(0, begin, count))) << begin;
    }
    recorder.bind_whole(training);
    EXPECT_TRUE(param->tensor.view(-1).equal(whole));
  };
  make_training(launch(), make_toy(), recorder);
}

TEST(Parameters, AreBoundOnceToWhatFits) {
  Recorder recorder;
  recorder.configure = [&](weft_training* training) {
    weft_param* const param = training->find_param("blocks.1.linear.weight");
    EXPECT_TRUE(param->tensor.is_meta());
    EXPECT_ERROR(bind(param, at::empty({36})), WEFT_INVALID_ARGUMENT, "[36]", "[6, 6]");
    EXPECT_ERROR(bind(param, at::empty({6, 6}, at::kDouble)), WEFT_INVALID_ARGUMENT, "Double", "Float");
    EXPECT_ERROR(bind(param, at::empty({6, 6}, at::kMeta)), WEFT_INVALID_ARGUMENT, "a tensor", "on cpu");
    EXPECT_ERROR(bind(param, at::Tensor()), WEFT_INVALID_ARGUMENT, "a tensor", "on cpu");
    const weft_at_tensor* const before = model_services().param_tensor(param);
    recorder.bind_whole(training);
    EXPECT_EQ(model_services().param_tensor(param), before);
    EXPECT_ERROR(bind(param, at::empty({6, 6})), WEFT_FAILED_PRECONDITION, "blocks.1.linear.weight",
                 "already");
  };
  const auto model = make_toy();
  const at::Tensor member = model->named_parameters()["head.weight"];
  const auto training = make_training(launch(), model, recorder);
  // Members, tied names and handles are one tensor with the storage that configure bound.
  EXPECT_TRUE(member.is_cpu());
  EXPECT_EQ(member.data_ptr(), training->bindings().find_param("wte.weight")->tensor.data_ptr());
}

TEST(Parameters, MustAllBeBound) {
  Recorder recorder;
  recorder.configure = [](weft_training*) {};
  EXPECT_ERROR(make_training(launch(), make_toy(), recorder), WEFT_INTERNAL, "recorder", "wte.weight",
               "without storage");
}

TEST(Parameters, MayLieInOneBuffer) {
  Recorder recorder;
  at::Tensor flat;
  recorder.configure = [&](weft_training* training) {
    int64_t total = 0;
    for (const auto& param : training->params()) total += param->count();
    flat = at::empty({total});
    int64_t begin = 0;
    for (const auto& param : training->params()) {
      const at::Tensor piece = flat.narrow(0, begin, param->count());
      read(param.get(), 0, param->count(), piece);
      bind(param.get(), piece.view(param->local));
      begin += param->count();
    }
  };
  const auto training = make_training(launch(), make_toy(), recorder);
  const auto reference = make_single(make_toy());
  training->run_step({toy_batch(3, 1)});
  reference->run_step({toy_batch(3, 1)});
  EXPECT_TRUE(training->bindings().params().front()->tensor.is_alias_of(flat));
  for (const auto& [name, gradient] : gradients_of(*reference))
    EXPECT_TRUE(gradients_of(*training).at(name).equal(gradient)) << name;
}

TEST(Buffers, ArePresentedWithTheirValues) {
  Recorder recorder;
  const auto training = make_training(launch(), make_toy(), recorder);
  const auto& model = model_services();
  ASSERT_EQ(model.buffer_count(recorder.training), 1);
  EXPECT_EQ(view(model.buffer_name(recorder.training, 0)), "blocks.0.scale");
  EXPECT_EQ(reinterpret_cast<const at::Tensor*>(model.buffer_tensor(recorder.training, 0))->item<double>(),
            1);
  EXPECT_EQ(model.buffer_tensor(recorder.training, 1), nullptr);
  EXPECT_EQ(model.buffer_name(recorder.training, 1).size, 0);
  EXPECT_EQ(model.unit(recorder.training, 5), nullptr);
  EXPECT_EQ(model.param(recorder.training, 99), nullptr);
}

// Returns the shards that the host makes of one published range.
Shard published(const Bindings& bindings, const weft_shard& record) {
  weft_shard_sink sink{&bindings, {}, {}};
  call([&](weft_error* e) { return publish_services().shard(&sink, &record, e); });
  return sink.shards.at(0);
}

TEST(Publish, RefusesRecordsThatDoNotFit) {
  Recorder recorder;
  const auto training = make_training(launch(), make_toy(), recorder);
  weft_param* const param = training->bindings().find_param("blocks.1.linear.weight");
  const at::Tensor values = at::ones({36});
  const auto publish = [&](weft_shard shard) {
    shard.struct_size = sizeof(shard);
    return published(training->bindings(), shard);
  };
  const weft_shard good{0, param, 0, 36, handle_of(values), handle_of(values), 0, 0, nullptr};
  const auto refused = [&](auto change) {
    weft_shard shard = good;
    change(shard);
    return shard;
  };
  const at::Tensor few = at::ones({35}), doubles = at::ones({36}, at::kDouble),
                   strided = at::ones({36, 2}).select(1, 0);
  EXPECT_ERROR(publish(refused([](auto& s) { s.param = nullptr; })), WEFT_INVALID_ARGUMENT, "no parameter");
  EXPECT_ERROR(publish(refused([](auto& s) { s.value = nullptr; })), WEFT_INVALID_ARGUMENT, "no values");
  EXPECT_ERROR(publish(refused([](auto& s) { s.begin = 1; })), WEFT_INVALID_ARGUMENT,
               "blocks.1.linear.weight", "36 elements from 1");
  EXPECT_ERROR(publish(refused([](auto& s) { s.begin = INT64_MAX; })), WEFT_INVALID_ARGUMENT,
               "36 elements here");
  EXPECT_ERROR(publish(refused([](auto& s) { s.count = -1; })), WEFT_INVALID_ARGUMENT, "-1 elements");
  EXPECT_ERROR(publish(refused([&](auto& s) { s.value = handle_of(few); })), WEFT_INVALID_ARGUMENT,
               "35 values");
  EXPECT_ERROR(publish(refused([&](auto& s) { s.gradient = handle_of(few); })), WEFT_INVALID_ARGUMENT,
               "35 gradients");
  EXPECT_ERROR(publish(refused([&](auto& s) { s.gradient = handle_of(doubles); })), WEFT_INVALID_ARGUMENT,
               "Double", "Float");
  EXPECT_ERROR(publish(refused([&](auto& s) { s.value = handle_of(strided); })), WEFT_INVALID_ARGUMENT,
               "not contiguous");
  EXPECT_ERROR(publish(refused([](auto& s) { s.partition_axes = 1u << axis::kCount; })),
               WEFT_INVALID_ARGUMENT, "partition_axes");
  EXPECT_ERROR(publish(refused([](auto& s) { s.flags = 2; })), WEFT_INVALID_ARGUMENT, "flags");
  const auto with_working = [&](const at::Tensor& working) {
    return publish(refused([&](auto& s) { s.working = handle_of(working); }));
  };
  EXPECT_ERROR(with_working(few), WEFT_INVALID_ARGUMENT, "35 working copies");
  EXPECT_ERROR(with_working(doubles), WEFT_INVALID_ARGUMENT, "of Double", "Float");
  EXPECT_ERROR(with_working(values), WEFT_INVALID_ARGUMENT, "leave them");
  EXPECT_ERROR(with_working(at::empty({36}, at::kMeta)), WEFT_INVALID_ARGUMENT, "on meta", "on cpu");
  EXPECT_TRUE(with_working(values.clone()).working.equal(values));
  const Shard taken = publish(good);
  EXPECT_FALSE(taken.working.defined());
  EXPECT_EQ(taken.counted_count, 36);
  EXPECT_TRUE(taken.gradient.equal(values));
}

// Every element is counted by one rank, however many ranks hold copies.
WEFT_RANKS_TEST(Publish, CountsEveryElementOnce, 4) {
  for (const uint32_t replica : {1, 2}) {
    Recorder recorder;
    recorder.describe_mesh = [&](weft_mesh* mesh) {
      mesh->size[axis::kReplica] = replica;
      mesh->size[axis::kData] = 4 / replica;
    };
    const auto training = make_training(world, make_toy(), recorder);
    for (const auto& param : training->bindings().params()) {
      weft_shard shard{sizeof(shard), param.get(), 0, param->count(), handle_of(param->tensor),
                       nullptr,       0,           0, nullptr};
      const Shard whole = published(training->bindings(), shard);
      const at::Tensor counted = at::zeros({param->count()});
      counted.narrow(0, whole.counted_begin, whole.counted_count).fill_(1);
      // A copy counts nothing. Replicas of a range that is split over the data axis share the counting of it.
      shard.flags = WEFT_SHARD_COPY;
      EXPECT_EQ(published(training->bindings(), shard).counted_count, 0);
      shard.flags = 0;
      shard.partition_axes = 1u << axis::kData;
      shard.count = param->count() / 2;
      const at::Tensor half = param->tensor.detach().view(-1).narrow(0, 0, shard.count);
      shard.value = handle_of(half);
      const at::Tensor pieces = at::tensor({published(training->bindings(), shard).counted_count}, at::kLong);
      world.communicator().all_reduce(counted).wait();
      world.communicator().all_reduce(pieces).wait();
      EXPECT_TRUE(counted.equal(at::ones({param->count()}))) << param->name;
      EXPECT_EQ(pieces.item<int64_t>(), param->count() / 2 * (4 / replica)) << param->name;
    }
  }
}

TEST(Memory, RefusesNegativeSizes) {
  const at::Tensor tensor = at::ones({4});
  EXPECT_ERROR(
      call([&](weft_error* e) { return memory_services().resize_storage(handle_of(tensor), -1, e); }),
      WEFT_INVALID_ARGUMENT, "-1 elements");
  EXPECT_ERROR(
      call([&](weft_error* e) { return memory_services().resize_storage(handle_of(tensor), INT64_MAX, e); }),
      WEFT_INVALID_ARGUMENT, "elements");
  call([&](weft_error* e) { return memory_services().resize_storage(handle_of(tensor), 0, e); });
  EXPECT_EQ(tensor.storage().nbytes(), 0);
  EXPECT_EQ(tensor.numel(), 4);
  call([&](weft_error* e) { return memory_services().resize_storage(handle_of(tensor), 4, e); });
  tensor.fill_(2);
  EXPECT_EQ(tensor.sum().item<double>(), 8);
}

}  // namespace

}  // namespace weft::test
