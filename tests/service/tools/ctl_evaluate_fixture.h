// Runs maxsimctl evaluate against a server of documents whose scores are known.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "gtest/gtest.h"
#include "tests/service/tools/run_ctl.h"
#include "tests/support/fake_server.h"

namespace maxsim::ctl {

// The documents' scores for every query. Documents a and d have equal scores.
inline const std::map<std::string, float> kScores = {
    {"a", 2.5f}, {"b", 7.25f}, {"d", 2.5f}, {"17", 1.0f}, {"-3", 4.0f}};

class CtlEvaluateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(folder_);
    // The array is float32 [3, 1, 2]: three queries of one token. The token is [number of the query, 0].
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 1, 2), }";
    header.resize(128 - 10 - 1, ' ');
    header.push_back('\n');
    std::ofstream file(Path("q.npy"), std::ios::binary);
    file << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(header.size()) << '\0' << header;
    const std::vector<float> values = {0, 0, 1, 0, 2, 0};
    file.write(reinterpret_cast<const char*>(values.data()), 24);
    file.close();
    WriteFile("q.jsonl",
              "{\"id\": \"q1\", \"text\": \"one\"}\n{\"id\": \"q2\", \"text\": \"two\"}\n{\"id\": \"q3\", "
              "\"text\": \"three\"}\n");
    WriteFile("qrels", "q1 0 a 1\nq2 0 b 2\nq3 0 b 0\n");

    v1::CollectionInfo* collection = server_.info.add_collections();
    collection->set_name("docs");
    collection->set_state(v1::COLLECTION_STATE_READY);
    collection->set_id_type(v1::ID_TYPE_STRING);
    server_.on_rerank = [this](auto&, const v1::RerankRequest& request, v1::RerankResponse& response) {
      requests_.push_back(request);
      return Answer(request, response);
    };
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  void WriteFile(const std::string& name, const std::string& text) { std::ofstream(Path(name)) << text; }
  std::string ReadFile(const std::string& name) {
    std::ifstream file(Path(name));
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  static std::vector<std::string> Ids(const v1::Candidates& candidates) {
    std::vector<std::string> ids(candidates.string_ids().ids().begin(), candidates.string_ids().ids().end());
    for (const int64_t id : candidates.int_ids().ids()) ids.push_back(std::to_string(id));
    if (candidates.has_whole_collection()) ids = {"a", "b", "d"};
    return ids;
  }

  // Ranks as a server does: by score, then by position.
  static grpc::Status Answer(const v1::RerankRequest& request, v1::RerankResponse& response) {
    v1::QueryResult* result = response.add_results();
    const bool integers = request.candidates().has_int_ids();
    const std::vector<std::string> ids = Ids(request.candidates());
    std::vector<uint64_t> positions;
    for (uint64_t i = 0; i < ids.size(); ++i) {
      if (kScores.count(ids[i]) > 0) {
        positions.push_back(i);
      } else if (integers) {
        result->mutable_missing_int_ids()->add_ids(std::stoll(ids[i]));
      } else {
        result->mutable_missing_string_ids()->add_ids(ids[i]);
      }
    }
    std::stable_sort(positions.begin(), positions.end(),
                     [&](uint64_t a, uint64_t b) { return kScores.at(ids[a]) > kScores.at(ids[b]); });
    positions.resize(std::min<size_t>(positions.size(), request.top_k()));
    for (const uint64_t position : positions) {
      if (integers) {
        result->mutable_int_ids()->add_ids(std::stoll(ids[position]));
      } else {
        result->mutable_string_ids()->add_ids(ids[position]);
      }
      result->add_scores(kScores.at(ids[position]));
      result->add_positions(position);
    }
    return grpc::Status::OK;
  }

  Outcome Evaluate(const std::vector<std::string>& more, bool text = false) {
    requests_.clear();
    std::vector<std::string> arguments = {"--server",      server_.target(), "evaluate",   "--queries-jsonl",
                                          Path("q.jsonl"), "--qrels",        Path("qrels")};
    if (!text) arguments.insert(arguments.end(), {"--queries", Path("q.npy")});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunCtl(arguments);
  }

  const std::string folder_ = ::testing::TempDir() + "/ctl_evaluate_" + std::to_string(getpid());
  std::vector<v1::RerankRequest> requests_;
  test::FakeServer server_;
};

}  // namespace maxsim::ctl
