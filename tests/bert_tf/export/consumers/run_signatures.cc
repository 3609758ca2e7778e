// Loads a SavedModel as TensorFlow Serving does and runs signatures of it.
//
//   run_signatures MODEL REQUESTS LIBRARY...
//
// REQUESTS has a folder for each signature to run, with a serialized TensorProto <input>.pb for
// each input; the outputs are written beside them as <output>.out.pb. LIBRARY are op libraries.

#include <iostream>
#include <string>
#include <vector>

#include "tensorflow/cc/saved_model/loader.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/public/session_options.h"

namespace {

bool Check(const absl::Status& status, const std::string& what) {
  if (!status.ok()) std::cerr << what << ": " << status.ToString() << "\n";
  return status.ok();
}

bool Run(const tensorflow::SavedModelBundle& model, const std::string& name,
         const tensorflow::SignatureDef& signature, const std::string& folder) {
  tensorflow::Env* env = tensorflow::Env::Default();
  std::vector<std::pair<std::string, tensorflow::Tensor>> inputs;
  for (const auto& input : signature.inputs()) {
    std::string bytes;
    tensorflow::TensorProto proto;
    tensorflow::Tensor tensor;
    if (!Check(tensorflow::ReadFileToString(env, folder + "/" + input.first + ".pb", &bytes), name))
      return false;
    if (!proto.ParseFromString(bytes) || !tensor.FromProto(proto)) {
      std::cerr << name << ": bad input " << input.first << "\n";
      return false;
    }
    inputs.emplace_back(input.second.name(), tensor);
  }
  std::vector<std::string> names, fetches;
  for (const auto& output : signature.outputs()) {
    names.push_back(output.first);
    fetches.push_back(output.second.name());
  }
  std::vector<tensorflow::Tensor> outputs;
  if (!Check(model.GetSession()->Run(inputs, fetches, {}, &outputs), name)) return false;
  for (size_t i = 0; i < outputs.size(); ++i) {
    tensorflow::TensorProto proto;
    outputs[i].AsProtoField(&proto);
    const std::string path = folder + "/" + names[i] + ".out.pb";
    if (!Check(tensorflow::WriteStringToFile(env, path, proto.SerializeAsString()), name))
      return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  tensorflow::Env* env = tensorflow::Env::Default();
  for (int i = 3; i < argc; ++i) {
    void* handle;
    if (!Check(env->LoadDynamicLibrary(argv[i], &handle), argv[i])) return 1;
  }
  tensorflow::SavedModelBundle model;
  // The graph is run as it was written: seconds a signature are saved, and the optimizer is that
  // of the Python tests, which leave it on.
  tensorflow::SessionOptions options;
  options.config.mutable_graph_options()->mutable_rewrite_options()->set_disable_meta_optimizer(
      true);
  if (!Check(tensorflow::LoadSavedModel(options, tensorflow::RunOptions(), argv[1], {"serve"},
                                        &model),
             argv[1]))
    return 1;
  int failures = 0, done = 0;
  for (const auto& signature : model.GetSignatures()) {
    const std::string folder = std::string(argv[2]) + "/" + signature.first;
    if (!env->FileExists(folder).ok()) continue;
    Run(model, signature.first, signature.second, folder) ? ++done : ++failures;
  }
  std::cout << done << " signatures ran\n";
  return failures ? 1 : 0;
}
