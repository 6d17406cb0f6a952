// maxsim_bench_front: times, on one core and by stage, what a request costs on the host before it is queued and after
// it was scored: parsing the message, resolving ids, the whole of Translate, building and writing the answer.
//
// Documents differ in length and lie in several shards. Each run of a stage has another request than the run before,
// so that neither the caches nor the branch predictor know where its ids are, unless the list is the whole
// collection. A stage that resolves ids reads a message that has just been parsed, as in a server. Stages take turns,
// and each number is the median of a stage's turns. It is CPU time of the thread, so that other work on the machine
// affects it little, and affects all stages equally. "ids one by one" is the simple way, with which "ids in groups"
// is compared.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "bench/program.h"
#include "collection/build/builder.h"
#include "collection/build/sources/memory_sources.h"
#include "google/protobuf/arena.h"
#include "kernels/maxsim.h"
#include "maxsim/v1/rerank.pb.h"
#include "maxsim_version.h"
#include "server/service/request/translate.h"
#include "server/store/collection_store.h"
#include "spdlog/spdlog.h"

namespace maxsim::bench {
namespace {

constexpr int32_t kQueryTokens = 32;
constexpr int64_t kNumShards = 16;
constexpr size_t kNumRequests = 17;  // a prime, so that every stage meets all of them

struct Options {
  int64_t documents = 1'000'000;
  int turns = 21;
  std::string json_path;
};

double ThreadSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// The kind of document ids in a collection; its requests name their candidates by these ids. kStrings are strings
// (StringId). The others are integers (IntId): kCounted numbers the documents in order, kClose reorders
// neighbouring numbers, and kScattered spreads the numbers over all 64 bits.
enum class Ids { kStrings, kCounted, kClose, kScattered };

int64_t IntId(Ids ids, int64_t document) {
  switch (ids) {
    case Ids::kClose:  // neighbours have values that are close, but not in the order of the documents
      return document ^ 5;
    case Ids::kScattered:
      return static_cast<int64_t>(static_cast<uint64_t>(document) * 0x9e3779b97f4a7c15u);
    default:
      return document;
  }
}

std::string StringId(int64_t document) {
  const std::string number = std::to_string(document * 7919);
  return "passage-" + std::string(12 - std::min<size_t>(number.size(), 12), '0') + number;
}

std::shared_ptr<const store::Collection> MakeCollection(store::CollectionStore* store, const std::string& folder,
                                                        Ids ids, int64_t num_documents) {
  collection::Catalog catalog(ids == Ids::kStrings ? collection::IdType::kString : collection::IdType::kInt64);
  int64_t num_tokens = 0;
  for (int64_t document = 0; document < num_documents; ++document) {
    catalog.lengths.push_back(static_cast<int32_t>(1 + document % 3));
    num_tokens += catalog.lengths.back();
    const absl::Status added =
        ids == Ids::kStrings ? catalog.ids.Add(StringId(document)) : catalog.ids.Add(IntId(ids, document));
    if (!added.ok()) Fail(added);
  }
  // Values do not matter, since nothing is scored. Large collections have the narrowest rows there are, to save memory.
  const int32_t dim = num_documents > 200'000 ? kMinDim : 128;
  const std::vector<uint16_t> tokens(static_cast<size_t>(num_tokens * dim), 0x3c00);
  collection::MemoryTokens source(collection::ElementType::kF16, dim, num_tokens, tokens.data());
  collection::BuildOptions build;
  build.folder = folder;
  build.name = "bench";
  build.storage = ScalarType::kF16;
  const int64_t token_bytes = num_tokens * dim * static_cast<int64_t>(sizeof(uint16_t));
  build.max_shard_bytes = std::max(token_bytes / kNumShards, collection::kMinMaxShardBytes);
  OrFail(collection::BuildCollection(build, catalog, source, nullptr));
  return OrFail(store->Load("c" + std::to_string(static_cast<int>(ids)) + "-" + std::to_string(num_documents), folder,
                            store::Residency::kHost));
}

v1::RerankRequest MakeRequest(Ids ids, int64_t num_documents, int num_candidates, int32_t dim, uint64_t seed) {
  std::mt19937_64 random(seed);
  v1::RerankRequest request;
  request.set_collection("bench");
  request.set_top_k(100);
  v1::TokenMatrix& tokens = *request.add_queries()->mutable_tokens();
  tokens.set_dtype(v1::DATA_TYPE_F16);
  tokens.set_num_tokens(kQueryTokens);
  tokens.set_dim(static_cast<uint32_t>(dim));
  tokens.set_data(std::string(static_cast<size_t>(kQueryTokens * dim) * sizeof(uint16_t), '\x2c'));
  // The candidates are the head of a random order of all documents, so that no id comes twice.
  std::vector<int64_t> documents(static_cast<size_t>(num_documents));
  std::iota(documents.begin(), documents.end(), 0);
  for (int i = 0; i < num_candidates; ++i) {
    const auto head = static_cast<size_t>(i);
    std::swap(documents[head], documents[head + random() % (documents.size() - head)]);
    const int64_t document = documents[head];
    if (ids == Ids::kStrings) {
      request.mutable_candidates()->mutable_string_ids()->add_ids(StringId(document));
    } else {
      request.mutable_candidates()->mutable_int_ids()->add_ids(IntId(ids, document));
    }
  }
  return request;
}

// Resolves a list one id at a time. ResolveList, which resolves groups of ids, is compared with this.
template <typename List>
uint64_t OneByOne(const List& list, const store::Collection& collection) {
  std::vector<uint64_t> ordinals;
  std::vector<uint32_t> positions;
  ordinals.reserve(static_cast<size_t>(list.size()));
  positions.reserve(static_cast<size_t>(list.size()));
  const bool dense = collection.num_documents() / 8 <= static_cast<uint64_t>(list.size()) * 16;
  std::vector<bool> bits(dense ? collection.num_documents() : 0);
  absl::flat_hash_set<uint64_t> set;
  if (!dense) set.reserve(static_cast<size_t>(list.size()));
  uint64_t num_tokens = 0;
  for (int i = 0; i < list.size(); ++i) {
    const auto ordinal = collection.Find(list.Get(i));
    if (!ordinal.has_value()) continue;
    if (dense ? static_cast<bool>(bits[*ordinal]) : !set.insert(*ordinal).second) continue;
    if (dense) bits[*ordinal] = true;
    ordinals.push_back(*ordinal);
    positions.push_back(static_cast<uint32_t>(i));
    num_tokens += static_cast<uint64_t>(collection.num_document_tokens(*ordinal));
  }
  return num_tokens + ordinals.size();
}

// Returns the result that the engine would return if the best `top_k` candidates were the first ones.
engine::JobResult FakeResult(const engine::Job& job) {
  engine::JobResult result;
  for (const engine::JobQuery& query : job.queries) {
    engine::JobQueryResult& scored = result.queries.emplace_back();
    const auto count = std::min<size_t>(static_cast<size_t>(query.top_k), query.candidates->ordinals.size());
    for (size_t i = 0; i < count; ++i) {
      scored.hits.push_back({1.0f, query.candidates->positions[i], query.candidates->ordinals[i]});
    }
  }
  return result;
}

struct Stage {
  const char* name;
  std::function<uint64_t()> run;  // returns a number that depends on the work, so that none of it is optimised away
  bool after_parsing = false;     // whether the message is parsed just before, as in a server
  std::vector<double> seconds = {};
};

class Case {
 public:
  Case(std::string name, const std::vector<v1::RerankRequest>& requests,
       std::shared_ptr<const store::Collection> collection)
      : name_(std::move(name)), collection_(std::move(collection)) {
    for (const v1::RerankRequest& request : requests) {
      service::Translated translated = OrFail(service::Translate(request, collection_, {}));
      Request& made = requests_.emplace_back();
      made.message = request;
      made.bytes = request.SerializeAsString();
      made.result = FakeResult(*translated.job);
      made.translated = std::move(translated);
      made.response = service::BuildResponse(made.translated.answer, made.result);
    }
    AddStages();
  }

  void Run(int turns, nlohmann::ordered_json* rows) {
    size_t next = 0;
    for (int turn = 0; turn < turns + 1; ++turn) {
      for (Stage& stage : stages_) {
        current_ = &requests_[next++ % requests_.size()];
        if (stage.after_parsing && !parsed_.emplace().ParseFromString(current_->bytes)) {
          Fail(absl::InternalError("a request's own bytes cannot be parsed"));
        }
        const double begin = ThreadSeconds();
        sink_ = sink_ + stage.run();
        if (turn > 0) stage.seconds.push_back(ThreadSeconds() - begin);  // the first turn warms up
      }
    }
    for (Stage& stage : stages_) {
      std::sort(stage.seconds.begin(), stage.seconds.end());
      const double us = stage.seconds[stage.seconds.size() / 2] * 1e6;
      std::printf("%-28s %-26s %10.1f us\n", name_.c_str(), stage.name, us);
      rows->push_back({{"case", name_}, {"stage", stage.name}, {"p50_us", us}});
    }
  }

 private:
  void AddStages() {
    stages_.push_back({"parse", [this] {
                         v1::RerankRequest parsed;
                         return static_cast<uint64_t>(parsed.ParseFromString(current_->bytes));
                       }});
    stages_.push_back({"parse on an arena", [this] {
                         google::protobuf::Arena arena;
                         auto* parsed = google::protobuf::Arena::CreateMessage<v1::RerankRequest>(&arena);
                         return static_cast<uint64_t>(parsed->ParseFromString(current_->bytes));
                       }});
    stages_.push_back({"ids one by one",
                       [this] {
                         const v1::Candidates& candidates = parsed_->candidates();
                         return candidates.has_string_ids() ? OneByOne(candidates.string_ids().ids(), *collection_)
                                                            : OneByOne(candidates.int_ids().ids(), *collection_);
                       },
                       true});
    stages_.push_back({"ids in groups",
                       [this] {
                         const auto resolved =
                             service::ResolveCandidates(parsed_->candidates(), *collection_, nullptr, {}, false,
                                                        [] { return std::string("candidates"); });
                         return (*resolved)->num_tokens;
                       },
                       true});
    stages_.push_back({"Translate", [this] { return service::Translate(*parsed_, collection_, {})->job->work; }, true});
    stages_.push_back({"held bytes", [this] {
                         const service::Translated& translated = current_->translated;
                         return service::HeldBytes(*translated.job, translated.answer) +
                                current_->message.SpaceUsedLong();
                       }});
    stages_.push_back({"build the answer", [this] {
                         const v1::RerankResponse response =
                             service::BuildResponse(current_->translated.answer, current_->result);
                         return static_cast<uint64_t>(response.results_size());
                       }});
    stages_.push_back(
        {"write the answer", [this] { return static_cast<uint64_t>(current_->response.SerializeAsString().size()); }});
  }

  struct Request {
    v1::RerankRequest message;
    std::string bytes;
    service::Translated translated;
    engine::JobResult result;
    v1::RerankResponse response;
  };

  const std::string name_;
  const std::shared_ptr<const store::Collection> collection_;
  std::vector<Request> requests_;
  const Request* current_ = nullptr;         // the request of the stage that runs
  std::optional<v1::RerankRequest> parsed_;  // current_, parsed for a stage that is after_parsing
  std::vector<Stage> stages_;
  volatile uint64_t sink_ = 0;
};

void Run(const Options& options) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("maxsim_bench_front." + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const auto backend = OrFail(CreateCpuBackend({.num_threads = 1, .isa = ""}));
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  {
    store::CollectionStore store(backend.get(), {.memory_reserve_bytes = 0});
    std::map<std::string, std::shared_ptr<const store::Collection>> known;
    struct Kind {
      Ids ids;
      const char* name;
    };
    for (const Kind kind : {Kind{Ids::kStrings, "strings"}, Kind{Ids::kCounted, "integers, counted"},
                            Kind{Ids::kClose, "integers, close"}, Kind{Ids::kScattered, "integers, scattered"}}) {
      for (const auto& [documents, candidates] : {std::pair<int64_t, int>{options.documents, 100'000},
                                                  {options.documents, 1000},
                                                  {options.documents / 10, 100'000},
                                                  {options.documents / 10, 1000}}) {
        const std::string path = folder / (std::to_string(static_cast<int>(kind.ids)) + std::to_string(documents));
        auto& collection = known[path];
        if (collection == nullptr) collection = MakeCollection(&store, path, kind.ids, documents);
        char name[96];
        std::snprintf(name, sizeof(name), "%s %dk/%lldk", kind.name, candidates / 1000,
                      static_cast<long long>(documents / 1000));
        std::vector<v1::RerankRequest> requests;
        for (size_t seed = 0; seed < kNumRequests; ++seed) {
          requests.push_back(MakeRequest(kind.ids, documents, candidates, collection->dim(), seed));
        }
        Case(name, requests, collection).Run(options.turns, &rows);
      }
    }
  }
  std::filesystem::remove_all(folder);
  if (options.json_path.empty()) return;
  const nlohmann::ordered_json report = {{"commit", kCommit}, {"documents", options.documents}, {"rows", rows}};
  WriteReport(options.json_path, report);
}

}  // namespace
}  // namespace maxsim::bench

int main(int argc, char** argv) {
  maxsim::bench::Options options;
  CLI::App app("Times a request's way to the queue and back, by stage, on one core.");
  app.add_option("--documents", options.documents, "of the large collections; the small ones have a tenth")
      ->check(CLI::Range(1'000'000, 100'000'000));  // the longest lists hold 100,000 different ids
  app.add_option("--turns", options.turns, "of which the median is shown")->check(CLI::Range(1, 10'000));
  app.add_option("--json", options.json_path, "writes the rows there too");
  CLI11_PARSE(app, argc, argv);
  spdlog::set_level(spdlog::level::warn);  // hides the memory plans of collections
  maxsim::bench::Run(options);
  return 0;
}
