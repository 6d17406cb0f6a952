// Runs the calls of the conformance suite with the C++ client (docs/internals/conformance.md).
//
//   conformance_cpp_client SERVER=GRPC_ADDRESS,HTTP_URL...
//
// Reads one call per line of standard input, and writes one answer per line. The client library has no method for
// `health`, so `health` calls the generated stub over a channel with the client's options.
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/options.h"
#include "client/status.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/client_context.h"
#include "maxsim/v1/documents.pb.h"
#include "maxsim/v1/rerank.pb.h"
#include "tests/conformance/drivers/cpp/cpp_requests.h"
#include "tests/conformance/drivers/cpp/cpp_results.h"

namespace maxsim::conformance {
namespace {

using client::Client;
using client::ClientOptions;
using Result = absl::StatusOr<Json>;

ClientOptions MakeClientOptions(const Json& given, const std::map<std::string, std::string>& addresses) {
  ClientOptions options;
  options.target = addresses.at(given.at("server").get<std::string>());
  options.retry.max_attempts = given.at("max_attempts").get<int>();
  options.retry.jitter = 0;
  if (given.contains("backoff_ms")) options.retry.initial_backoff = absl::Milliseconds(given["backoff_ms"].get<int>());
  if (given.contains("timeout_ms")) options.timeout = absl::Milliseconds(given["timeout_ms"].get<int>());
  if (given.contains("token")) options.bearer_token = given["token"].get<std::string>();
  if (given.contains("ca_file")) options.tls.ca_file = given["ca_file"].get<std::string>();
  options.tls.enabled = given.contains("ca_file") || given.contains("tls");
  return options;
}

// Returns `convert(*answer)`, or the error of `answer`.
template <typename Answer, typename Convert>
Result Converted(const absl::StatusOr<Answer>& answer, Convert convert) {
  if (!answer.ok()) return answer.status();
  return convert(*answer);
}

Result Scroll(Client& client, const Json& arguments) {
  v1::ScrollRequest request = MakeScroll(arguments);
  Json documents = Json::array();
  while (true) {
    const absl::StatusOr<v1::ScrollResponse> page = client.Scroll(request);
    if (!page.ok()) return page.status();
    for (const v1::StoredDocument& document : page->documents()) documents.push_back(StoredJson(document));
    if (!page->has_more()) return Json{{"documents", std::move(documents)}};
    const v1::StoredDocument& last = page->documents(page->documents_size() - 1);
    if (last.id_case() == v1::StoredDocument::kStringId) {
      request.set_after_string_id(last.string_id());
    } else {
      request.set_after_int_id(last.int_id());
    }
  }
}

Result Delete(Client& client, const Json& arguments) {
  const v1::DeleteRequest request = MakeDelete(arguments);
  const bool by_filter = request.matching_case() != v1::DeleteRequest::MATCHING_NOT_SET;
  return Converted(by_filter ? client.DeleteMatching(request) : client.Delete(request),
                   [by_filter](const auto& response) { return DeletesJson(response, by_filter); });
}

Result Health(const ClientOptions& options, const Json& arguments) {
  const auto channels = client::MakeChannels(options);
  if (!channels.ok()) return channels.status();
  grpc::ClientContext context;
  grpc::health::v1::HealthCheckRequest request;
  if (arguments.contains("service")) request.set_service(arguments["service"].get<std::string>());
  grpc::health::v1::HealthCheckResponse response;
  const grpc::Status status = grpc::health::v1::Health::NewStub(channels->front())->Check(&context, request, &response);
  if (!status.ok()) return client::FromGrpcStatus(status);
  return Json{{"status", grpc::health::v1::HealthCheckResponse::ServingStatus_Name(response.status())}};
}

// Returns nothing for a method that the client does not have.
std::optional<Result> Call(Client& client, const std::string& method, const Json& arguments) {
  if (method == "rerank" || method == "search") return Converted(client.Rerank(MakeRerank(arguments)), RankingJson);
  if (method == "rerank_many") return Converted(client.Rerank(MakeRerankMany(arguments)), RankingsJson);
  if (method == "upsert") return Converted(client.Upsert(MakeUpsert(arguments)), WritesJson);
  if (method == "delete") return Delete(client, arguments);
  if (method == "get") return Converted(client.Get(MakeGet(arguments)), GetJson);
  if (method == "scroll") return Scroll(client, arguments);
  if (method == "count") {
    return Converted(client.Count(MakeCount(arguments)), [](const v1::CountResponse& response) {
      return Json{{"count", response.count()}};
    });
  }
  if (method == "facets") return Converted(client.Facets(MakeFacets(arguments)), FacetsJson);
  if (method == "explain") return Converted(client.Explain(MakeExplain(arguments)), ExplanationJson);
  if (method == "health") return Health(client.options(), arguments);
  if (method == "info") return Converted(client.GetInfo(), InfoJson);
  return std::nullopt;
}

// Makes one client for each set of options.
class Driver {
 public:
  explicit Driver(std::map<std::string, std::string> addresses) : addresses_(std::move(addresses)) {}

  Json Answer(const Json& line) {
    const std::string method = line.at("method").get<std::string>();
    std::unique_ptr<Client>& client = clients_[line.at("client").dump()];
    if (client == nullptr) {
      absl::StatusOr<std::unique_ptr<Client>> made = Client::Create(MakeClientOptions(line.at("client"), addresses_));
      if (!made.ok()) return {{"error", ErrorJson(made.status())}};
      client = *std::move(made);
    }
    const std::optional<Result> result = Call(*client, method, line.at("arguments"));
    if (!result.has_value()) return {{"unsupported", method}};
    if (!result->ok()) return {{"error", ErrorJson(result->status())}};
    return {{"result", **result}};
  }

 private:
  const std::map<std::string, std::string> addresses_;  // gRPC's, by the server's name
  std::map<std::string, std::unique_ptr<Client>> clients_;
};

}  // namespace
}  // namespace maxsim::conformance

int main(int argc, char** argv) {
  std::map<std::string, std::string> addresses;
  for (int i = 1; i < argc; ++i) {
    const std::pair<std::string, std::string> named = absl::StrSplit(argv[i], absl::MaxSplits('=', 1));
    addresses[named.first] = named.second.substr(0, named.second.find(','));
  }
  maxsim::conformance::Driver driver(std::move(addresses));
  std::string line;
  while (std::getline(std::cin, line)) {
    std::cout << driver.Answer(nlohmann::json::parse(line)).dump() << std::endl;
  }
}
