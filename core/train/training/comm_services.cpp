// The services with which strategies communicate. They wrap Communicator.
#include "base/error_sink.hpp"
#include "training/bindings.hpp"
#include "training/handles.hpp"
#include "training/services.hpp"
#include "work_handle.hpp"

namespace weft {

namespace {

const at::Tensor& tensor_of(const weft_at_tensor* handle) {
  return *reinterpret_cast<const at::Tensor*>(handle);
}

template <class Start>
weft_status start(weft_work** own, weft_error* error, const Start& body) {
  return guarded(error, [&] { *own = new weft_work{body(), nullptr}; });
}

weft_status all_to_all(weft_comm* comm, const weft_at_tensor* output, const weft_at_tensor* input,
                       const int64_t* output_splits, const int64_t* input_splits, weft_work** own,
                       weft_error* error) {
  return start(own, error, [&] {
    const auto splits = [&](const int64_t* s) {
      return s == nullptr ? std::vector<int64_t>() : std::vector<int64_t>(s, s + comm->communicator.size());
    };
    return comm->communicator.all_to_all(tensor_of(output), tensor_of(input), splits(output_splits),
                                         splits(input_splits));
  });
}

void add_collectives(weft_comm_services& t) {
  t.all_reduce = [](weft_comm* c, const weft_at_tensor* inout, uint32_t op, weft_work** own,
                    weft_error* error) {
    return start(own, error, [&] {
      const bool control = (op & WEFT_REDUCE_CONTROL) != 0;
      return c->communicator.all_reduce(tensor_of(inout),
                                        static_cast<ReduceOp>(op & ~uint32_t{WEFT_REDUCE_CONTROL}), control);
    });
  };
  t.all_gather = [](weft_comm* c, const weft_at_tensor* output, const weft_at_tensor* input, weft_work** own,
                    weft_error* error) {
    return start(own, error, [&] { return c->communicator.all_gather(tensor_of(output), tensor_of(input)); });
  };
  t.reduce_scatter = [](weft_comm* c, const weft_at_tensor* output, const weft_at_tensor* input, uint32_t op,
                        weft_work** own, weft_error* error) {
    return start(own, error, [&] {
      return c->communicator.reduce_scatter(tensor_of(output), tensor_of(input), static_cast<ReduceOp>(op));
    });
  };
  t.broadcast = [](weft_comm* c, const weft_at_tensor* inout, uint32_t root, weft_work** own,
                   weft_error* error) {
    return start(own, error,
                 [&] { return c->communicator.broadcast(tensor_of(inout), static_cast<int>(root)); });
  };
  t.all_to_all = &all_to_all;
}

void add_messages(weft_comm_services& t) {
  t.send = [](weft_comm* c, const weft_at_tensor* value, uint32_t to, uint32_t tag, weft_work** own,
              weft_error* error) {
    return start(own, error,
                 [&] { return c->communicator.send(tensor_of(value), static_cast<int>(to), tag); });
  };
  t.recv = [](weft_comm* c, const weft_at_tensor* value, uint32_t from, uint32_t tag, weft_work** own,
              weft_error* error) {
    return start(own, error,
                 [&] { return c->communicator.recv(tensor_of(value), static_cast<int>(from), tag); });
  };
  t.barrier = [](weft_comm* c, weft_error* error) {
    return guarded(error, [&] { c->communicator.barrier(); });
  };
}

}  // namespace

const weft_comm_services* comm_services() {
  static const weft_comm_services table = [] {
    weft_comm_services t{};
    t.struct_size = sizeof(t);
    t.comm = [](weft_training* training, uint32_t axes) { return training->comm(axes); };
    t.axes = [](weft_training*, weft_str name, uint32_t* out, weft_error* error) {
      return guarded(error, [&] { *out = Mesh::named(view(name)); });
    };
    t.rank = [](weft_comm* c) { return static_cast<uint32_t>(c->communicator.rank()); };
    t.size = [](weft_comm* c) { return static_cast<uint32_t>(c->communicator.size()); };
    t.subset = [](weft_comm* c, const uint32_t* members, uint32_t num_members, weft_comm** out,
                  weft_error* error) {
      return guarded(error, [&] {
        Communicator made = c->communicator.subset({members, members + num_members});
        *out = nullptr;
        if (!made) return;
        c->subsets.push_back(std::make_unique<weft_comm>());
        c->subsets.back()->communicator = std::move(made);
        *out = c->subsets.back().get();
      });
    };
    add_collectives(t);
    add_messages(t);
    t.wait = [](weft_work* work, weft_error* error) { return guarded(error, [&] { work->wait(); }); };
    t.release = [](weft_work* work) { delete work; };
    return t;
  }();
  return &table;
}

}  // namespace weft
