// The functions of the C application API for training, evaluation and checkpoints, and its function table.
#include <span>

#include "application/handles.hpp"
#include "application/objects.hpp"
#include "base/error_sink.hpp"
#include "base/json.hpp"
#include "base/option_table.hpp"
#include "base/options.hpp"
#include "base/struct_size.hpp"
#include "base/text.hpp"
#include "trainer/c_hook.hpp"

namespace weft::application {

Batch batch_of(weft_fields fields, const char* function) {
  if (fields.size > 0) require(fields.data, function, "batch");
  Batch batch;
  for (const weft_field& field : std::span(fields.data, fields.size)) {
    if (field.name.data == nullptr)
      fail(WEFT_INVALID_ARGUMENT, "{}: the name of field {} of the batch has no data", function,
           batch.size());
    if (field.tensor == nullptr)
      fail(WEFT_INVALID_ARGUMENT, "{}: field \"{}\" of the batch has no tensor", function, view(field.name));
    batch.set(view(field.name), field.tensor->tensor);
  }
  return batch;
}

std::string_view text_of_argument(weft_str text, const char* function, const char* argument) {
  if (text.size > 0) require(text.data, function, argument);
  return view(text);
}

namespace {

// Before the step: afterwards the model has changed.
void check_result(const weft_step_result* out, const char* function) {
  require(out, function, "out");
  require_size(function, out->struct_size);
}

void fill(const StepResult& result, weft_step_result* out) {
  fill_out("weft_step_result", result_in_c(result), out);
}

SaveOptions save_options(weft_str given) {
  static const OptionTable table(nlohmann::json::parse(R"([
    {"name": "shard", "type": "bool", "default": false, "doc": "several files with an index"},
    {"name": "prefix", "type": "text", "default": "", "doc": "in the files' names"},
    {"name": "size_per_shard", "type": "int", "default": 1024, "min": 1, "doc": "MB"},
    {"name": "use_safetensors", "type": "bool", "default": true, "doc": "false: pytorch_model.bin"},
    {"name": "background", "type": "bool", "default": false, "doc": "write in a thread"}])"),
                                 "save options");
  const nlohmann::json object =
      trim(view(given)).empty() ? nlohmann::json::object() : parse_json(view(given), "save options");
  const Options values(table, object, "save options");
  return {values.at("shard").integer != 0, values.at("prefix").text, values.at("size_per_shard").integer,
          values.at("use_safetensors").integer != 0, values.at("background").integer != 0};
}

// Wraps a function that takes a booster, a job and a path.
template <class Body>
weft_status checkpoint(const char* function, weft_booster* booster, weft_job* job, weft_str path,
                       weft_error* error, const Body& body) {
  return guarded(error, [&] {
    require(booster, function, "booster");
    require(job, function, "job");
    body(booster->booster, job->job, std::string(view(path)));
  });
}

weft_status job_backward(weft_job* job, weft_fields fields, uint32_t synchronise, double* loss,
                         weft_error* error) {
  return guarded(error, [&] {
    require(job, "weft_job_backward", "job");
    require(loss, "weft_job_backward", "loss");
    *loss = job->job.accumulate_gradients(batch_of(fields, "weft_job_backward"), synchronise != 0);
  });
}

// Returns an output by name; null on a rank without outputs, whose pipeline stage does not run the last unit.
weft_tensor* output_of(const State& outputs, std::string_view name) {
  return outputs.empty() ? nullptr : new weft_tensor{outputs.at(name).detach().contiguous()};
}

weft_status job_forward(weft_job* job, weft_fields fields, weft_str output, weft_tensor** own,
                        weft_error* error) {
  return guarded(error, [&] {
    require(job, "weft_job_forward", "job");
    require(own, "weft_job_forward", "own");
    *own = output_of(job->job.forward(batch_of(fields, "weft_job_forward")), view(output));
  });
}

weft_status job_execute_pipeline(weft_job* job, const weft_pipeline_arguments* arguments, weft_error* error) {
  return guarded(error, [&] {
    constexpr const char* kFunction = "weft_job_execute_pipeline";
    require(job, kFunction, "job");
    require(arguments, kFunction, "arguments");
    const auto [size, fields, output, own, loss, backward, reserved] =
        known_part(kFunction, *arguments, WEFT_END_OF(weft_pipeline_arguments, batch));
    Job& inner = job->job;
    if (backward != 0 && !inner.optimizer)
      fail(WEFT_FAILED_PRECONDITION, "{}: backward needs an optimizer: pass one to weft_booster_boost",
           kFunction);
    const std::string_view name = text_of_argument(output, kFunction, "output");
    const PipelineResult result = job->booster.execute_pipeline(
        batch_of(fields, kFunction), inner.model, inner.criterion,
        backward != 0 ? inner.optimizer : optim::Optimizer(), loss != nullptr, own != nullptr);
    if (own != nullptr) *own = output_of(result.outputs, name);
    if (loss != nullptr) *loss = result.loss.value();
  });
}

weft_status job_metric(weft_job* job, uint64_t index, weft_metric* out, weft_error* error) {
  return guarded(error, [&] {
    require(job, "weft_job_metric", "job");
    require(out, "weft_job_metric", "out");
    if (index >= job->metrics.size())
      fail(WEFT_OUT_OF_RANGE, "weft_job_metric: the last evaluation has {} metrics, none has the number {}",
           job->metrics.size(), index);
    const Measure& metric = job->metrics[index];
    weft_metric found = {};
    found.name = borrow(metric.name);
    found.value = metric.value;
    found.count = metric.count;
    fill_out("weft_job_metric", found, out);
  });
}

void add_steps(weft_application_table& t) {
  t.weft_job_next = [](weft_job* job, weft_step_result* out, weft_error* error) {
    return guarded(error, [&] {
      require(job, "weft_job_next", "job");
      check_result(out, "weft_job_next");
      if (!job->job.data)
        fail(WEFT_FAILED_PRECONDITION,
             "weft_job_next: the job has no data; boost it with some, or use weft_job_train_step");
      Batch batch;
      if (!job->job.data.next(batch)) fail(WEFT_OUT_OF_RANGE, "the end of the epoch");
      fill(job->job.train_step(batch), out);
    });
  };
  t.weft_job_train_step = [](weft_job* job, weft_fields fields, weft_step_result* out, weft_error* error) {
    return guarded(error, [&] {
      require(job, "weft_job_train_step", "job");
      check_result(out, "weft_job_train_step");
      fill(job->job.train_step(batch_of(fields, "weft_job_train_step")), out);
    });
  };
  t.weft_job_request_stop = [](weft_job* job, weft_error* error) {
    return guarded(error, [&] {
      require(job, "weft_job_request_stop", "job");
      job->job.request_stop();
    });
  };
  t.weft_stop_signals_create = [](weft_job* job, weft_stop_signals** own, weft_error* error) {
    return guarded(error, [&] {
      require(job, "weft_stop_signals_create", "job");
      require(own, "weft_stop_signals_create", "own");
      *own = new weft_stop_signals{StopSignals(job->job)};
    });
  };
  t.weft_stop_signals_agree = [](weft_stop_signals* signals, int32_t* number, weft_error* error) {
    return guarded(error, [&] {
      require(signals, "weft_stop_signals_agree", "signals");
      require(number, "weft_stop_signals_agree", "number");
      *number = signals->signals.agree(world()).signal;
    });
  };
  t.weft_job_evaluate = [](weft_job* job, weft_fields fields, double* loss, weft_error* error) {
    return guarded(error, [&] {
      require(job, "weft_job_evaluate", "job");
      require(loss, "weft_job_evaluate", "loss");
      Evaluation evaluation = job->job.evaluate(batch_of(fields, "weft_job_evaluate"));
      job->metrics = evaluation.measures();
      *loss = evaluation.loss();
    });
  };
  t.weft_job_metric = &job_metric;
  t.weft_job_forward = &job_forward;
  t.weft_job_backward = &job_backward;
  t.weft_job_execute_pipeline = &job_execute_pipeline;
  t.weft_job_generate = &job_generate;
  t.weft_tokenizer_open = &tokenizer_open;
  t.weft_tokenizer_encode = &tokenizer_encode;
  t.weft_tokenizer_decode = &tokenizer_decode;
}

// For applications that write their own loop.
void add_own_loop(weft_application_table& t) {
  t.weft_job_clip_grad_by_norm = [](weft_job* job, double max_norm, double* norm, weft_error* error) {
    return guarded(error, [&] {
      require(job, "weft_job_clip_grad_by_norm", "job");
      require(norm, "weft_job_clip_grad_by_norm", "norm");
      *norm = job->job.optimizer.clip_grad_by_norm(max_norm);
    });
  };
  t.weft_job_clip_grad_by_value = [](weft_job* job, double limit, weft_error* error) {
    return guarded(error, [&] {
      require(job, "weft_job_clip_grad_by_value", "job");
      job->job.optimizer.clip_grad_by_value(limit);
    });
  };
  t.weft_job_step = [](weft_job* job, weft_error* error) {
    return guarded(error, [&] {
      require(job, "weft_job_step", "job");
      job->job.optimizer.step();
    });
  };
  t.weft_job_zero_grad = [](weft_job* job, weft_error* error) {
    return guarded(error, [&] {
      require(job, "weft_job_zero_grad", "job");
      job->job.optimizer.zero_grad();
    });
  };
}

void add_checkpoints(weft_application_table& t) {
  t.weft_booster_save_model = [](weft_booster* b, weft_job* j, weft_str path, weft_str options,
                                 weft_error* error) {
    return checkpoint("weft_booster_save_model", b, j, path, error,
                      [&](Booster& booster, Job& job, const std::string& to) {
                        booster.save_model(job.model, to, save_options(options));
                      });
  };
  t.weft_booster_load_model = [](weft_booster* b, weft_job* j, weft_str path, uint32_t strict,
                                 weft_error* error) {
    return checkpoint("weft_booster_load_model", b, j, path, error,
                      [&](Booster& booster, Job& job, const std::string& from) {
                        booster.load_model(job.model, from, strict != 0);
                      });
  };
  t.weft_booster_save_optimizer = [](weft_booster* b, weft_job* j, weft_str path, weft_str options,
                                     weft_error* error) {
    return checkpoint("weft_booster_save_optimizer", b, j, path, error,
                      [&](Booster& booster, Job& job, const std::string& to) {
                        booster.save_optimizer(job.optimizer, to, save_options(options));
                      });
  };
  t.weft_booster_load_optimizer = [](weft_booster* b, weft_job* j, weft_str path, weft_error* error) {
    return checkpoint("weft_booster_load_optimizer", b, j, path, error,
                      [](Booster& booster, Job& job, const std::string& from) {
                        booster.load_optimizer(job.optimizer, from);
                      });
  };
  t.weft_booster_save_lr_scheduler = [](weft_booster* b, weft_job* j, weft_str path, weft_error* error) {
    return checkpoint("weft_booster_save_lr_scheduler", b, j, path, error,
                      [](Booster& booster, Job& job, const std::string& to) {
                        booster.save_lr_scheduler(job.schedule, to);
                      });
  };
  t.weft_booster_load_lr_scheduler = [](weft_booster* b, weft_job* j, weft_str path, weft_error* error) {
    return checkpoint("weft_booster_load_lr_scheduler", b, j, path, error,
                      [](Booster& booster, Job& job, const std::string& from) {
                        booster.load_lr_scheduler(job.schedule, from);
                      });
  };
  t.weft_booster_save_training = [](weft_booster* b, weft_job* j, weft_str folder, weft_str options,
                                    weft_error* error) {
    return checkpoint("weft_booster_save_training", b, j, folder, error,
                      [&](Booster& booster, Job& job, const std::string& to) {
                        booster.save_training(job, to, save_options(options));
                      });
  };
  t.weft_booster_load_training = [](weft_booster* b, weft_job* j, weft_str folder, weft_error* error) {
    return checkpoint(
        "weft_booster_load_training", b, j, folder, error,
        [](Booster& booster, Job& job, const std::string& from) { booster.load_training(job, from); });
  };
}

weft_application_table make_table() {
  weft_application_table t{};
  t.struct_size = sizeof(t);
  t.weft_tensor_create = &tensor_create;
  t.weft_tensor_describe = &tensor_describe;
  t.weft_model_open = &model_open;
  t.weft_optimizer_create = &optimizer_create;
  t.weft_scheduler_create = &scheduler_create;
  t.weft_data_open = &data_open;
  t.weft_booster_create = &booster_create;
  t.weft_booster_boost = &booster_boost;
  add_steps(t);
  add_own_loop(t);
  t.weft_booster_take_over = [](weft_booster* b, weft_job* j, weft_error* error) {
    return guarded(error, [&] {
      require(b, "weft_booster_take_over", "booster");
      require(j, "weft_booster_take_over", "job");
      b->booster.take_over(j->job);
      j->booster = b->booster;
    });
  };
  t.weft_model_adapt = [](weft_model* model, weft_str adapter, weft_error* error) {
    return guarded(error, [&] {
      require(model, "weft_model_adapt", "model");
      model->model.adapt(std::string(view(adapter)));
    });
  };
  t.weft_booster_place = [](weft_booster* booster, weft_place* out, weft_error* error) {
    return guarded(error, [&] {
      require(booster, "weft_booster_place", "booster");
      require(out, "weft_booster_place", "out");
      const Booster& of = booster->booster;
      const weft_place place = {sizeof(weft_place), static_cast<uint32_t>(of.world().rank()),
                                static_cast<uint32_t>(of.world().size()),
                                static_cast<uint32_t>(of.data_rank()), static_cast<uint32_t>(of.data_size())};
      fill_out("weft_booster_place", place, out);
    });
  };
  t.weft_booster_finish_saving = [](weft_booster* booster, weft_error* error) {
    return guarded(error, [&] {
      require(booster, "weft_booster_finish_saving", "booster");
      booster->booster.finish_saving();
    });
  };
  t.weft_trainer_create = &trainer_create;
  t.weft_trainer_fit = &trainer_fit;
  t.weft_trainer_describe = &trainer_describe;
  add_checkpoints(t);
#define WEFT_DELETE(name, type) t.name = [](type* object) { delete object; };
  WEFT_APPLICATION_DESTROY_FUNCTIONS(WEFT_DELETE)
#undef WEFT_DELETE
  return t;
}

}  // namespace

const weft_application_table& table() {
  static const weft_application_table made = make_table();
  return made;
}

}  // namespace weft::application
