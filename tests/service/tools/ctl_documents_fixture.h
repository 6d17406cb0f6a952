// Runs maxsimctl's commands in this process against a server that keeps documents.
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

namespace maxsim::ctl {

class CtlDocumentsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(folder_);
    v1::CollectionInfo* notes = server_.info.add_collections();
    notes->set_name("notes");
    notes->set_state(v1::COLLECTION_STATE_READY);
    notes->set_id_type(v1::ID_TYPE_STRING);
    notes->set_dim(2);
    v1::LiveInfo* live = notes->mutable_live();
    live->set_sequence(1402);
    live->set_compacted_sequence(1398);
    live->set_num_changed_documents(3);
    live->set_num_deleted_documents(1007);
    live->set_num_segments(1);
    live->set_segment_bytes(64 << 20);
    live->set_segment_used_bytes(3 << 10);
    live->set_log_bytes(5 << 10);
    server_.info.mutable_limits()->set_max_request_bytes(1 << 20);
    server_.on_upsert = [this](auto&, const v1::UpsertRequest& request, v1::UpsertResponse& response) {
      return Write(request, response);
    };
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  grpc::Status Write(const v1::UpsertRequest& request, v1::UpsertResponse& response) {
    requests_.push_back(request);
    for (const v1::Document& document : request.documents()) {
      const bool stale = document.version() == 1;
      response.add_results()->set_outcome(stale ? v1::WRITE_OUTCOME_STALE : v1::WRITE_OUTCOME_APPLIED);
      if (!stale) ++sequence_;
      if (!document.text().empty()) response.set_encoded_tokens(response.encoded_tokens() + 10);
    }
    response.set_sequence(sequence_);
    return grpc::Status::OK;
  }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string WriteFile(const std::string& name, const std::string& text) {
    std::ofstream(Path(name), std::ios::binary) << text;
    return Path(name);
  }

  template <typename T>
  std::string WriteNpy(const std::string& name, const std::string& descr, const std::string& shape,
                       const std::vector<T>& values) {
    std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
    header.resize(128 - 10 - 1, ' ');
    header.push_back('\n');
    std::string text = std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header;
    text.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    return WriteFile(name, text);
  }

  Outcome Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--server", server_.target()});
    return RunCtl(arguments);
  }

  const std::string folder_ = ::testing::TempDir() + "/ctl_documents_" + std::to_string(getpid());
  std::vector<v1::UpsertRequest> requests_;
  uint64_t sequence_ = 0;
  test::FakeServer server_;
};

}  // namespace maxsim::ctl
