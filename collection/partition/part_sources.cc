#include "collection/partition/part_sources.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "base/text.h"

namespace maxsim::collection {
namespace {

std::string DescribeLogOf(const PartSources& sources, size_t idx) {
  if (sources.logs[idx] == nullptr) return "has no log";
  const std::optional<LogStream> stream = sources.logs[idx]->stream();
  return stream.has_value() ? Cat("follows ", Describe(*stream)) : std::string("has a log that follows no stream");
}

std::optional<LogStream> StreamOf(const PartSources& sources, size_t idx) {
  return sources.logs[idx] == nullptr ? std::nullopt : sources.logs[idx]->stream();
}

}  // namespace

bool PartSources::any_is_live() const {
  return std::any_of(logs.begin(), logs.end(), [](const auto& log) { return log != nullptr; });
}

bool PartSources::all_are_live() const {
  return std::all_of(logs.begin(), logs.end(), [](const auto& log) { return log != nullptr; });
}

std::optional<LogStream> PartSources::stream() const {
  for (size_t idx = 0; idx < logs.size(); ++idx) {
    if (std::optional<LogStream> stream = StreamOf(*this, idx); stream.has_value()) return stream;
  }
  return std::nullopt;
}

absl::StatusOr<std::unique_ptr<CollectionLog>> OpenSourceLog(const std::string& folder, const Manifest& manifest,
                                                             std::string_view done) {
  absl::StatusOr<std::unique_ptr<CollectionLog>> log =
      CollectionLog::Open(folder, LogFormat::Of(manifest), CollectionLog::Mode::kMustExist);
  if (!absl::IsFailedPrecondition(log.status())) return log;
  return Prefix(Cat("a live collection is ", done, " while no server has it loaded: "), log.status());
}

absl::Status CheckAlike(const StoredCollection& one, const StoredCollection& other, bool are_live) {
  const Manifest& a = one.manifest;
  const Manifest& b = other.manifest;
  const auto differ = [&](std::string_view what, const std::string& of_one, const std::string& of_other) {
    return absl::FailedPreconditionError(Cat(what, ": ", one.folder, " has ", of_one, ", but ", other.folder, " has ",
                                             of_other, "; partitions of one collection agree"));
  };
  const auto encoder = [](const Manifest& manifest) {
    return manifest.encoder.has_value() ? DescribeEncoder(*manifest.encoder) : std::string("none");
  };
  if (a.name != b.name) return differ("name", Quote(a.name), Quote(b.name));
  if (a.dim != b.dim) return differ("dimension", Cat(a.dim), Cat(b.dim));
  if (a.storage != b.storage) return differ("storage", std::string(Name(a.storage)), std::string(Name(b.storage)));
  if (a.rotation_seed != b.rotation_seed) return differ("rotation seed", Cat(a.rotation_seed), Cat(b.rotation_seed));
  if (a.id_type != b.id_type) {
    return differ("type of ids", std::string(Name(a.id_type)), std::string(Name(b.id_type)));
  }
  if (a.encoder != b.encoder) return differ("encoder", encoder(a), encoder(b));
  if (a.codes != b.codes) return differ("codes", DescribeCodes(a.codes), DescribeCodes(b.codes));
  if (a.fields != b.fields) return differ("fields", DescribeFields(a.fields), DescribeFields(b.fields));
  if (a.generation != b.generation && !are_live) return differ("generation", Cat(a.generation), Cat(b.generation));
  if (a.has_payloads != b.has_payloads && !are_live) {
    return differ("payloads", a.has_payloads ? "some" : "none", b.has_payloads ? "some" : "none");
  }
  return absl::OkStatus();
}

absl::Status CheckStreams(const PartSources& sources) {
  // Compares all pairs, because MayBeSame is not transitive: A may be B, and B may be C, although A cannot be C.
  for (size_t one = 0; one < sources.logs.size(); ++one) {
    for (size_t other = one + 1; other < sources.logs.size(); ++other) {
      const std::optional<LogStream> a = StreamOf(sources, one);
      const std::optional<LogStream> b = StreamOf(sources, other);
      if (a.has_value() ? b.has_value() && MayBeSame(*a, *b) : !b.has_value()) continue;
      return absl::FailedPreconditionError(Cat("stream: ", sources.collections[one].folder, " ",
                                               DescribeLogOf(sources, one), ", but ", sources.collections[other].folder,
                                               " ", DescribeLogOf(sources, other),
                                               "; the live partitions of one collection follow one stream"));
    }
  }
  return absl::OkStatus();
}

}  // namespace maxsim::collection
