// Checkpoints of a Booster: takes a snapshot at once, and writes it now or in the background.
#include <nlohmann/json.hpp>
#include <optional>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/sha256.hpp"
#include "base/signals.hpp"
#include "base/text.hpp"
#include "booster/booster_state.hpp"
#include "checkpoint/average_files.hpp"
#include "checkpoint/model_files.hpp"
#include "checkpoint/training_state.hpp"
#include "comm/agreement.hpp"
#include "files/fingerprint.hpp"
#include "host/launch/activity.hpp"
#include "opening/model_snapshot.hpp"
#include "opening/model_state.hpp"
#include "weft/booster.hpp"

namespace weft {

namespace {

Bindings& bindings_of(const Model& model, const char* what) {
  if (model.shared().training == nullptr) fail(WEFT_FAILED_PRECONDITION, "{} needs a boosted model", what);
  return model.shared().bindings();
}

checkpoint::Trained trained(const Job& job, Bindings& bindings) {
  return {bindings,          job.optimizer,     job.schedule,    job.data,   job.accumulate,
          job.max_grad_norm, job.configuration, job.hook_states, job.average};
}

// A checkpoint mixed of values that ranks should have alike would be no model at all.
void make_replicas_equal(Bindings& bindings) {
  bindings.merge();
  if (bindings.options().booster.check_agreement < 0) return;
  verify([&] { bindings.check_replicas(Bindings::Origin::kSaved); });
}

// Throws on every rank unless the ranks read the same at `path`: tensors and, if `key` is given, the text of
// the metadata under it, as far as fingerprints tell. Collective.
void require_same_content(const Communicator& ranks, const std::string& what, const std::string& path,
                          const std::string& format, const char* key = nullptr) {
  if (ranks.size() == 1) return;
  nlohmann::json content, found_in;
  on_every_rank(ranks, [&] {
    const checkpoint::Reader reader(path, format);
    content[what] = checkpoint::compared_content(reader);
    if (key != nullptr)
      content[what + " metadata"] = digest_prefix(sha256_hex(reader.metadata(key).value_or("")));
    for (const auto& fact : content.items()) found_in[fact.key()] = path;
  });
  require_agreement(ranks, content, found_in);
}

}  // namespace

void Booster::Shared::save(bool background, std::function<void(const Communicator&)> write) {
  auto timed = [this, write = std::move(write)](const Communicator& ranks) {
    const auto begin = std::chrono::steady_clock::now();
    write(ranks);
    last_save_time = std::chrono::steady_clock::now() - begin;
  };
  if (background) return background_save.start(world.communicator(), std::move(timed));
  // Beyond the limit of file sizes a write fails with EFBIG, unless the application has a handler.
  std::optional<BlockSignals> no_signal;
  if (has_default_action(SIGXFSZ)) no_signal.emplace(SIGXFSZ);
  timed(world.communicator());
}

std::chrono::nanoseconds Booster::last_save_time() const {
  return shared_->last_save_time;
}

void Booster::finish_saving() {
  shared_->background_save.finish();
}

void Booster::save_model(const Model& model, const std::string& path, const SaveOptions& options) {
  const Activity activity("the save to " + path);
  finish_saving();
  Bindings& bindings = bindings_of(model, "save_model");
  make_replicas_equal(bindings);
  ModelSnapshot snapshot(model, options, this->options().checkpoint_io,
                         checkpoint::held_values(bindings.publish(WEFT_REASON_SAVE)));
  if (options.background) checkpoint::copy_pieces(snapshot.pieces, world().is_master());
  shared_->save(options.background, [path, snapshot = std::move(snapshot)](const Communicator& ranks) {
    snapshot.save(path, ranks);
  });
}

void Booster::load_model(Model& model, const std::string& path, bool strict) {
  const Activity activity("the loading of " + path);
  finish_saving();
  if (model.shared().training != nullptr) {
    Bindings& bindings = model.shared().bindings();
    require_same_content(world().communicator(), "weights", path, options().checkpoint_io);
    const std::vector<Shard> shards = bindings.publish(WEFT_REASON_LOAD);
    on_every_rank(world().communicator(), [&] { checkpoint::read_weights(path, bindings, shards, strict); });
    bindings.values_written(WEFT_REASON_LOAD, shards);
    bindings.check_replicas(Bindings::Origin::kLoaded);
    return;
  }
  const checkpoint::Reader reader(path, options().checkpoint_io);
  const checkpoint::WeightMap map(reader, model.module());
  if (strict) map.require_exact(path, model.module());
  model.shared().weights = path;
}

void Booster::save_optimizer(const optim::Optimizer& optimizer, const std::string& path,
                             const SaveOptions& options) {
  const Activity activity("the save to " + path);
  finish_saving();
  checkpoint::OptimizerSnapshot snapshot = checkpoint::take_snapshot(optimizer, world().communicator());
  checkpoint::WriteOptions written = write_options(options, this->options().checkpoint_io);
  written.metadata = {{checkpoint::kOptimizerKey, snapshot.description.dump()}};
  if (options.background) checkpoint::copy_pieces(snapshot.pieces, world().is_master());
  shared_->save(options.background,
                [path, written, pieces = std::move(snapshot.pieces)](const Communicator& ranks) {
                  if (!written.shard) return checkpoint::write_gathered(path, written, ranks, pieces);
                  SharedStaging staging(ranks, path, written.prefix);
                  checkpoint::write_gathered(staging.path().string(), written, ranks, pieces);
                  staging.publish();
                });
}

void Booster::load_optimizer(optim::Optimizer& optimizer, const std::string& path) {
  const Activity activity("the loading of " + path);
  finish_saving();
  on_every_rank(world().communicator(), [&] { optimizer.shared().boosted("load_optimizer"); });
  require_same_content(world().communicator(), "optimizer state", path, options().checkpoint_io,
                       checkpoint::kOptimizerKey);
  on_every_rank(world().communicator(), [&] { checkpoint::read_optimizer(path, optimizer); });
}

void Booster::save_lr_scheduler(const optim::Scheduler& scheduler, const std::string& path) {
  on_master(world().communicator(), [&] {
    nlohmann::json state = checkpoint::schedule_to_json(scheduler);
    state["weft"] = "lr_scheduler";
    checkpoint::replace_file(path, state.dump() + "\n");
  });
}

void Booster::load_lr_scheduler(optim::Scheduler& scheduler, const std::string& path) {
  nlohmann::json state;
  on_every_rank(world().communicator(), [&] {
    state = parse_json(read_file(path, 1 << 16), path);
    if (!state.is_object() || !state.contains("weft") || state["weft"] != "lr_scheduler")
      fail(WEFT_INVALID_ARGUMENT, "{} holds no learning-rate schedule of Weft", path);
  });
  require_agreement(world().communicator(), {{"schedule", state}}, {{"schedule", path}});
  on_every_rank(world().communicator(), [&] { checkpoint::read_schedule(state, path, scheduler); });
}

void Booster::save_training(const Job& job, const std::string& path, const SaveOptions& options) {
  const Activity activity("the save to " + path);
  finish_saving();
  Bindings& bindings = bindings_of(job.model, "save_training");
  if (!options.unverified) {
    make_replicas_equal(bindings);
    return shared_->write_training(job, path, options);
  }
  bindings.strategy().despite_comparison([&] {
    bindings.merge(/*compares=*/false);
    shared_->write_training(job, path, options);
  });
}

void Booster::Shared::write_training(const Job& job, const std::string& path,
                                     const SaveOptions& save_options) {
  Bindings& bindings = job.model.shared().bindings();
  std::vector<Kept> kept;
  const std::vector<Shard> shards = bindings.publish(WEFT_REASON_SAVE, &kept);
  ModelSnapshot model(job.model, save_options, options.checkpoint_io, checkpoint::held_values(shards));
  model.check_weights_path();
  std::optional<ModelSnapshot> averaged;
  if (job.average)
    averaged.emplace(job.model, save_options, options.checkpoint_io,
                     checkpoint::averaged_values(*job.average, shards));
  checkpoint::TrainingSnapshot state = checkpoint::take_snapshot(trained(job, bindings), world, shards, kept);
  if (save_options.background) {
    checkpoint::copy_pieces(model.pieces, world.is_master());  // the master writes what others count, too
    if (averaged) checkpoint::copy_pieces(averaged->pieces, world.is_master());
    checkpoint::copy_pieces(state.pieces, false);
  }
  save(save_options.background, [path, model = std::move(model), averaged = std::move(averaged),
                                 state = std::move(state)](const Communicator& ranks) {
    SharedStaging staging(ranks, path, model.options.prefix);
    model.write(staging.path(), ranks);
    if (averaged) averaged->write(staging.make_folder(kAverageFolder), ranks);
    checkpoint::write_training_state(staging.make_shared_folder(checkpoint::kStateFolder),
                                     model.weights_in(staging.path()), model.options.format, ranks, state);
    staging.publish();
  });
}

void Booster::load_training(Job& job, const std::string& path) {
  const Activity activity("the loading of " + path);
  finish_saving();
  Bindings& bindings = bindings_of(job.model, "load_training");
  std::optional<checkpoint::SavedTraining> saved;
  nlohmann::json identity;
  on_every_rank(world().communicator(), [&] {
    saved.emplace(path, trained(job, bindings));
    if (world().size() > 1) identity = saved->identity();
  });
  require_agreement(world().communicator(), {{"training state", identity}}, {{"training state", path}});
  std::map<std::string, std::string> hook_states;
  on_every_rank(world().communicator(), [&] { hook_states = saved->hook_states(); });
  std::vector<Kept> kept;
  const std::vector<Shard> shards = bindings.publish(WEFT_REASON_LOAD, &kept);
  on_every_rank(world().communicator(), [&] { saved->read(shards, kept); });
  bindings.values_written(WEFT_REASON_LOAD, shards);
  bindings.check_replicas(Bindings::Origin::kLoaded);
  saved->restore(world());
  job.hook_states = std::move(hook_states);
}

}  // namespace weft
