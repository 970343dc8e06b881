// Tensor parallelism without a Booster: ShardFormer divides the model; the loop, libtorch's optimizer and the
// sums over data-parallel ranks are the application's own.
//   shard_former MODEL_FOLDER_OR_CONFIG DATA OUT TENSOR_SIZE
//   weft run -n 4 shard_former config.json corpus.txt out 2
#include <weft/weft.hpp>

#include <torch/optim/adamw.h>

#include <cstdio>
#include <cstdlib>
#include <string>

int main(int argc, char** argv) try {
  if (argc < 5) {
    std::fprintf(stderr, "usage: shard_former MODEL DATA OUT TENSOR_SIZE\n");
    return 2;
  }
  weft::World world = weft::launch();
  const int tensor_size = std::atoi(argv[4]);
  if (tensor_size < 1 || world.size() % tensor_size != 0) {
    std::fprintf(stderr, "shard_former: TENSOR_SIZE is %s, must divide the %d ranks\n", argv[4],
                 world.size());
    return 2;
  }
  const int data_size = world.size() / tensor_size;
  const weft::Communicator tensor = world.along({data_size, tensor_size}, {1});
  const weft::Communicator data = world.along({data_size, tensor_size}, {0});

  const weft::ShardFormer former({.tensor_parallel_group = tensor});
  const weft::ShardedModel model = former.optimize(weft::Model::open(argv[1]));
  model.train();
  torch::optim::AdamW optimizer(model.parameters(), torch::optim::AdamWOptions(1e-3));

  weft::data::Loader loader(weft::data::text(argv[2], 64), {.batch_size = 8 * data_size,
                                                            .rank = data.rank(),
                                                            .ranks = data_size,
                                                            .shuffle = true,
                                                            .drop_last = true});
  int step = 0;
  for (const weft::Batch& batch : loader) {
    if (++step > 20) break;
    const at::Tensor loss = model(batch).at("loss");
    loss.backward();
    for (const at::Tensor& parameter : model.parameters()) {
      data.all_reduce(parameter.grad()).wait();
      parameter.grad().div_(data.size());
    }
    model.clip_grad_by_norm(1.0);
    optimizer.step();
    optimizer.zero_grad();
    if (step % 5 == 0 || step == 1)
      world.print_on_master("step " + std::to_string(step) + " loss " + std::to_string(loss.item<double>()));
  }
  if (data.rank() == 0) model.save(argv[3]);  // one tensor-parallel group; opens in transformers
  world.block_all();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "shard_former: %s\n", error.what());
  return 1;
}
