// Asks a maxsimd one of the bundled questions and prints the five best passages.
//
//   ask [SERVER [DEMO_FOLDER [QUESTION]]]      default: localhost:7070 demo 8
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/messages.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"

namespace {

namespace client = maxsim::client;
namespace v1 = maxsim::v1;

constexpr uint32_t kDim = 128;  // of the demo collection

// Returns the elements of a little-endian .npy file (format 1.0), without its header; "" if it cannot be read.
std::string ReadNpy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (bytes.size() < 10) return "";
  const size_t header_bytes = static_cast<uint8_t>(bytes[8]) + 256 * static_cast<uint8_t>(bytes[9]);
  return bytes.substr(10 + header_bytes);
}

// Returns the "title" in a payload, which is a JSON object.
std::string Title(const std::string& payload) {
  google::protobuf::Struct object;
  if (!google::protobuf::util::JsonStringToMessage(payload, &object).ok()) return "";
  const auto title = object.fields().find("title");
  return title == object.fields().end() ? "" : title->second.string_value();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string server = argc > 1 ? argv[1] : "localhost:7070";
  const std::string demo = argc > 2 ? argv[2] : "demo";
  const size_t question = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 8;

  // The token vectors of all questions follow one another in a float16 [192, 128] array. An int32 [15] array has the
  // number of vectors of each question.
  const std::string vectors = ReadNpy(demo + "/query_tokens.npy");
  const std::string length_bytes = ReadNpy(demo + "/query_lengths.npy");
  const auto* lengths = reinterpret_cast<const int32_t*>(length_bytes.data());
  if (question >= length_bytes.size() / sizeof(int32_t)) {
    std::fprintf(stderr, "%s has no question %zu\n", demo.c_str(), question);
    return 1;
  }
  const size_t row_bytes = kDim * sizeof(uint16_t);
  const size_t begin = std::accumulate(lengths, lengths + question, size_t{0}) * row_bytes;
  const auto num_tokens = static_cast<uint32_t>(lengths[question]);

  v1::RerankRequest request;
  request.set_collection("demo");
  *request.add_queries() = client::MakeQuery(
      client::MakeTokens(v1::DATA_TYPE_F16, num_tokens, kDim, vectors.substr(begin, num_tokens * row_bytes)));
  *request.mutable_candidates() = client::WholeCollection();  // or client::StringCandidates(ids)
  request.set_top_k(5);
  request.set_return_payloads(true);

  absl::StatusOr<std::unique_ptr<client::Client>> connection = client::Client::Create({.target = server});
  if (!connection.ok()) {
    std::fprintf(stderr, "%s\n", connection.status().ToString().c_str());
    return 1;
  }
  const absl::StatusOr<v1::RerankResponse> response = (*connection)->Rerank(request);
  if (!response.ok()) {
    std::fprintf(stderr, "%s\n", response.status().ToString().c_str());
    return 1;
  }
  const v1::QueryResult& result = response->results(0);
  for (int i = 0; i < result.scores_size(); ++i) {
    std::printf("%d. %s %.4f %s\n", i + 1, result.string_ids().ids(i).c_str(), result.scores(i),
                Title(result.payloads(i)).c_str());
  }
  return 0;
}
