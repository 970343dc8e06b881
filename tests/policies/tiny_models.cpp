#include "policies/tiny_models.hpp"

#include "support/temporary_folder.hpp"

namespace weft::test {

Model tiny_model(const std::string& config, const std::string& architecture, const std::string& precision) {
  const TemporaryFolder folder;
  folder.file("config.json", config);
  return Model::open(folder.path() + "/config.json", architecture, precision);
}

Batch class_batch(const std::string& architecture, int64_t samples, int64_t seed) {
  at::manual_seed(static_cast<uint64_t>(seed));
  const auto random = [](int64_t high, std::vector<int64_t> shape) {
    return at::randint(high, shape, at::kLong);
  };
  const at::Tensor ids = random(22, {samples, 7}) + 1;
  if (architecture.ends_with("ForSequenceClassification"))
    return {{"input_ids", ids}, {"labels", random(3, {samples})}};
  if (architecture.ends_with("ForTokenClassification"))
    return {{"input_ids", ids}, {"labels", random(3, {samples, 7})}};
  if (architecture.ends_with("ForQuestionAnswering"))
    return {{"input_ids", ids},
            {"start_positions", random(7, {samples})},
            {"end_positions", random(7, {samples})}};
  return gpt2_batch(samples, seed);
}

Batch padded(const std::string& architecture, Batch batch) {
  const at::Tensor mask = at::ones({6, 7}, at::kLong);
  for (int64_t row = 0; row < 5; ++row)
    mask[row].narrow(0, row % 2 == 0 || architecture.ends_with("Answering") ? 7 - row : 0, row).fill_(0);
  batch.at("input_ids").masked_fill_(mask.eq(0), 0);
  if (const at::Tensor* labels = batch.find("labels"); labels != nullptr && labels->dim() == 2) {
    labels->masked_fill_(mask.eq(0), -100);
    labels->slice(1, 1).masked_fill_(mask.slice(1, 0, -1).eq(0), -100);  // predicted from padding
  }
  batch.set("attention_mask", mask);
  return batch;
}

Trial padded_trial(Trial trial) {
  trial.batch = [before = trial.batch](int64_t step) {
    Batch batch = before(step);
    const at::Tensor mask = at::ones({6, 7}, at::kLong);
    for (int64_t row = 0; row < 5; ++row)
      row % 2 == 0 ? mask[row].narrow(0, 7 - row, row).fill_(0) : mask[row].narrow(0, 0, row).fill_(0);
    batch.at("labels").masked_fill_(mask.eq(0), -100);
    batch.set("attention_mask", mask);
    return batch;
  };
  return trial;
}

Trial packed_trial(Trial trial) {
  trial.batch = [before = trial.batch](int64_t step) {
    Batch batch = before(step);
    batch.erase("attention_mask");
    const at::Tensor positions = at::arange(7), ids = at::empty({batch.samples(), 7}, at::kLong);
    for (int64_t row = 0; row < batch.samples(); ++row)
      ids[row].copy_(positions.gt(row % 6).to(at::kLong) + positions.gt((row + 2) % 6));
    batch.set("document_ids", ids);
    return batch;
  };
  return trial;
}

Trial base_trial(Trial trial) {
  trial.batch = [](int64_t step) { return Batch{{"input_ids", gpt2_batch(4, step + 2).at("input_ids")}}; };
  return trial;
}

Trial form_trial(Trial trial) {
  trial.batch = [](int64_t step) { return gpt2_batch(3, step + 1); };
  return trial;
}

}  // namespace weft::test
