// Runs maxsimctl's commands in this process, with a fake server whose answers each test chooses.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/service/tools/run_ctl.h"
#include "tests/support/fake_server.h"
#include "tools/maxsimctl/maxsimctl.h"

namespace maxsim::ctl {

class CtlTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(folder_);
    // The array is float32 [2, 8], and every element is 0.5.
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 8), }";
    header.resize(128 - 10 - 1, ' ');
    header.push_back('\n');
    std::ofstream file(Path("q.npy"), std::ios::binary);
    file << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(header.size()) << '\0' << header;
    const std::vector<float> values(16, 0.5f);
    file.write(reinterpret_cast<const char*>(values.data()), 64);

    v1::CollectionInfo* collection = server_.info.add_collections();
    collection->set_name("passages");
    collection->set_state(v1::COLLECTION_STATE_READY);
    collection->set_generation(3);
    collection->set_dim(8);
    collection->set_storage(v1::DATA_TYPE_F16);
    collection->set_id_type(v1::ID_TYPE_STRING);
    collection->set_num_documents(1398);
    collection->set_num_tokens(174339);
    collection->set_residency("host");
    server_.info.set_version("1.2.3");
    server_.info.mutable_limits()->set_max_top_k(10000);
    server_.on_rerank = [this](auto&, const v1::RerankRequest& request, v1::RerankResponse& response) {
      request_ = request;
      return Answer(request, response);
    };
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  void WriteFile(const std::string& name, const std::string& text) { std::ofstream(Path(name)) << text; }

  static grpc::Status Answer(const v1::RerankRequest& request, v1::RerankResponse& response) {
    response.set_generation(3);
    v1::QueryResult* result = response.add_results();
    for (const char* id : {"doc-b", "doc-a"}) {
      if (result->scores_size() == static_cast<int>(request.top_k())) break;
      result->mutable_string_ids()->add_ids(id);
      result->add_scores(result->scores_size() == 0 ? 1.5f : 0.1f);
      result->add_positions(result->scores_size() == 1 ? 1 : 0);
      if (request.return_payloads()) {
        result->add_payloads(R"({"title": "On wings\u001b[2J", "tokens": ["on", "wing", "##s"]})");
      }
      if (request.return_alignments()) {
        v1::Alignment* alignment = result->add_alignments();
        for (const uint32_t token : {2u, 0u}) {
          alignment->add_document_tokens(token);
          alignment->add_similarities(0.75f);
        }
      }
    }
    for (const std::string& id : request.candidates().string_ids().ids()) {
      if (id == "gone") result->mutable_missing_string_ids()->add_ids(id);
    }
    return grpc::Status::OK;
  }

  Outcome Run(std::vector<std::string> arguments, bool terminal = false, const char* no_color = nullptr) {
    arguments.insert(arguments.begin(), {"--server", server_.target()});
    return RunCtl(arguments, [&](Environment* environment) {
      environment->out_is_terminal = terminal;
      environment->getenv = [no_color](const char* name) {
        return std::string(name) == "NO_COLOR" ? no_color : nullptr;
      };
    });
  }

  const std::string folder_ = ::testing::TempDir() + "/ctl_service_" + std::to_string(getpid());
  v1::RerankRequest request_;
  test::FakeServer server_;
};

}  // namespace maxsim::ctl
