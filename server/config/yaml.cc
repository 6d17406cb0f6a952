// Reads the configuration file, writes --print-config, catches yaml-cpp's exceptions.
#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/config/collections.h"
#include "server/config/keys.h"
#include "server/config/load.h"
#include "server/config/values.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/yaml.h"

namespace maxsim::config {
namespace {

std::string At(const std::string& origin, const YAML::Node& node) {
  const YAML::Mark mark = node.Mark();
  return mark.is_null() ? origin : absl::StrCat(origin, ":", mark.line + 1);
}

absl::Status Fail(const std::string& where, const std::string& message) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", message));
}

std::vector<std::string> SectionNames() {
  std::vector<std::string> names = {"collections"};
  for (const Key& key : Keys()) {
    std::string section = key.name.substr(0, key.name.find('.'));
    if (std::find(names.begin(), names.end(), section) == names.end()) names.push_back(std::move(section));
  }
  return names;
}

std::string Suggestion(const std::string& name, const std::vector<std::string>& known) {
  const std::string nearest = Nearest(name, known);
  return nearest.empty() ? "" : absl::StrCat(" (did you mean ", nearest, "?)");
}

// Returns a hint for an unknown key that is written as in a flag (`engine.lanes: 3`). The hint shows how to write it in
// a file.
std::string SpellingHint(const std::string& name) {
  const size_t dot = name.find('.');
  return absl::StrCat(" (write \"", name.substr(0, dot), ":\" and below it, indented, \"", name.substr(dot + 1),
                      ":\")");
}

// Returns a hint that names the first line that is indented with a tab, or "" if there is none. yaml-cpp's message
// lacks that.
std::string TabHint(const std::string& text) {
  int number = 1;
  for (size_t begin = 0; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const size_t word = std::min(text.find_first_not_of(" \t", begin), end);
    if (text.find('\t', begin) < word) return absl::StrCat(" (line ", number, " is indented with a tab; use spaces)");
    begin = end + 1;
  }
  return "";
}

// Returns the text of a scalar, or "" for a null, so that `address:` means empty.
std::string ScalarText(const YAML::Node& node) { return node.IsNull() ? "" : node.Scalar(); }

absl::StatusOr<std::string> ValueText(const Key& key, const YAML::Node& node, const std::string& where) {
  if (node.IsScalar() || node.IsNull()) return ScalarText(node);
  if (!key.is_list || !node.IsSequence()) return Fail(where, absl::StrCat(key.name, ": needs one value, not a block"));
  std::string joined;
  for (const YAML::Node& element : node) {
    if (!element.IsScalar()) return Fail(At(where, element), absl::StrCat(key.name, ": must be a list of texts"));
    if (absl::StrContains(element.Scalar(), ",")) {
      return Fail(where, absl::StrCat(key.name, ": \"", element.Scalar(), "\" holds a comma"));
    }
    absl::StrAppend(&joined, joined.empty() ? "" : ",", element.Scalar());
  }
  return joined;
}

absl::Status ApplySection(const std::string& section, const YAML::Node& node, const std::string& origin,
                          Loaded& loaded) {
  if (node.IsNull()) return absl::OkStatus();
  if (!node.IsMap()) return Fail(At(origin, node), absl::StrCat("section ", section, " must hold keys and values"));
  std::set<std::string> seen;
  for (const auto& entry : node) {
    const std::string where = At(origin, entry.first);
    const std::string name = absl::StrCat(section, ".", ScalarText(entry.first));
    const Key* key = FindKey(name);
    if (key == nullptr) {
      std::vector<std::string> known;
      for (const Key& candidate : Keys()) known.push_back(candidate.name);
      return Fail(where, absl::StrCat("unknown key ", name, Suggestion(name, known)));
    }
    if (!seen.insert(name).second) return Fail(where, absl::StrCat("key ", name, " appears twice"));
    absl::StatusOr<std::string> text = ValueText(*key, entry.second, where);
    if (!text.ok()) return text.status();
    if (absl::Status status = key->set(*text, loaded.config); !status.ok()) {
      return Fail(where, absl::StrCat(name, ": ", status.message()));
    }
    loaded.origins[name] = where;
  }
  return absl::OkStatus();
}

absl::StatusOr<CollectionConfig> ReadCollection(const YAML::Node& node, const std::string& origin) {
  const std::string where = At(origin, node);
  if (!node.IsMap())
    return Fail(where, "collections: each needs name and path, and may have residency, replicate and live");
  CollectionConfig collection;
  std::set<std::string> seen;
  for (const auto& entry : node) {
    const std::string name = ScalarText(entry.first);
    const std::string line = At(origin, entry.first);
    if (!seen.insert(name).second) return Fail(line, absl::StrCat("collections: ", name, " appears twice"));
    if (!entry.second.IsScalar()) return Fail(line, absl::StrCat("collections: ", name, " needs one value"));
    const std::string& value = entry.second.Scalar();
    if (name == "name") {
      collection.name = value;
    } else if (name == "path") {
      collection.path = value;
    } else if (name == "residency") {
      const auto residency = store::ResidencyFromName(value);
      if (!residency.has_value()) {
        return Fail(line, absl::StrCat("collections: residency \"", value, "\" is not one of auto, gpu, host, disk"));
      }
      collection.residency = *residency;
    } else if (name == "replicate") {
      const auto replication = store::ReplicationFromName(value);
      if (!replication.has_value()) {
        return Fail(line, absl::StrCat("collections: replicate \"", value, "\" is not one of auto, true, false"));
      }
      collection.replication = *replication;
    } else if (name == "live") {
      const absl::StatusOr<bool> live = ParseBool(value);
      if (!live.ok()) return Fail(line, absl::StrCat("collections: live ", live.status().message()));
      collection.live = *live;
    } else {
      return Fail(line, absl::StrCat("unknown key collections.", name,
                                     Suggestion(name, {"name", "path", "residency", "replicate", "live"})));
    }
  }
  if (absl::Status status = ValidateCollection(collection); !status.ok()) {
    return Fail(where, absl::StrCat("collections: ", status.message()));
  }
  return collection;
}

absl::Status ApplyCollections(const YAML::Node& node, const std::string& origin, Loaded& loaded) {
  if (node.IsNull()) return absl::OkStatus();
  if (!node.IsSequence()) return Fail(At(origin, node), "collections must be a list");
  for (const YAML::Node& element : node) {
    absl::StatusOr<CollectionConfig> collection = ReadCollection(element, origin);
    if (!collection.ok()) return collection.status();
    for (const CollectionConfig& other : loaded.config.collections) {
      if (other.name == collection->name) {
        return Fail(At(origin, element), absl::StrCat("collections: name ", other.name, " appears twice"));
      }
    }
    loaded.origins[CollectionKey(collection->name)] = At(origin, element);
    loaded.config.collections.push_back(*std::move(collection));
  }
  return absl::OkStatus();
}

absl::Status ApplyDocument(const YAML::Node& document, const std::string& origin, Loaded& loaded) {
  if (document.IsNull()) return absl::OkStatus();
  if (!document.IsMap()) return Fail(At(origin, document), "the file must hold sections of keys and values");
  std::set<std::string> seen;
  for (const auto& entry : document) {
    const std::string name = ScalarText(entry.first);
    const std::string where = At(origin, entry.first);
    const std::vector<std::string> sections = SectionNames();
    if (std::find(sections.begin(), sections.end(), name) == sections.end()) {
      return Fail(where, absl::StrCat("unknown section ", name,
                                      FindKey(name) != nullptr ? SpellingHint(name) : Suggestion(name, sections)));
    }
    if (!seen.insert(name).second) return Fail(where, absl::StrCat("section ", name, " appears twice"));
    absl::Status status = name == "collections" ? ApplyCollections(entry.second, origin, loaded)
                                                : ApplySection(name, entry.second, origin, loaded);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Finds the line on which a YAML document begins, and ignores everything else.
class DocumentStart : public YAML::EventHandler {
 public:
  const YAML::Mark& mark() const { return mark_; }

  void OnDocumentStart(const YAML::Mark& mark) override { mark_ = mark; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  YAML::Mark mark_;
};

// Returns an error if the file has several YAML documents. YAML::Load would read the first and silently ignore the
// others.
absl::Status CheckOneDocument(const std::string& text, const std::string& origin) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentStart document;
  if (!parser.HandleNextDocument(document) || !parser.HandleNextDocument(document)) return absl::OkStatus();
  return Fail(absl::StrCat(origin, ":", document.mark().line + 1),
              "a second YAML document begins here; the file must hold one");
}

// Returns a scalar that YAML reads back as `value`.
std::string Quoted(const std::string& value) {
  const bool plain = !value.empty() && value.find_first_not_of(
                                           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                           "0123456789._-/+") == std::string::npos;
  if (plain) return value;
  YAML::Emitter emitter;
  emitter << YAML::DoubleQuoted << value;
  return emitter.c_str();
}

std::string KeyLine(const Key& key, const Loaded& loaded) {
  const std::string value = key.get(loaded.config);
  std::string text = Quoted(value);
  if (key.is_list) {
    text = "[";
    for (size_t begin = 0; begin < value.size();) {
      const size_t end = std::min(value.find(',', begin), value.size());
      absl::StrAppend(&text, begin == 0 ? "" : ", ", Quoted(value.substr(begin, end - begin)));
      begin = end + 1;
    }
    text += "]";
  }
  const auto origin = loaded.origins.find(key.name);
  return absl::StrCat("  ", key.name.substr(key.name.find('.') + 1), ": ", text,
                      origin == loaded.origins.end() ? "" : absl::StrCat("  # ", origin->second), "\n");
}

}  // namespace

absl::Status ApplyYaml(const std::string& text, const std::string& origin, Loaded& loaded) {
  try {
    if (absl::Status status = CheckOneDocument(text, origin); !status.ok()) return status;
    return ApplyDocument(YAML::Load(text), origin, loaded);
  } catch (const YAML::Exception& error) {
    return Fail(error.mark.is_null() ? origin : absl::StrCat(origin, ":", error.mark.line + 1),
                absl::StrCat("not YAML: ", error.msg, TabHint(text)));
  }
}

std::string ToYaml(const Loaded& loaded) {
  std::string text;
  std::string section;
  for (const Key& key : Keys()) {
    std::string of_key = key.name.substr(0, key.name.find('.'));
    if (of_key != section) {
      absl::StrAppend(&text, text.empty() ? "" : "\n", of_key, ":\n");
      section = std::move(of_key);
    }
    text += KeyLine(key, loaded);
  }
  if (loaded.config.collections.empty()) return text + "\ncollections: []\n";
  text += "\ncollections:\n";
  for (const CollectionConfig& collection : loaded.config.collections) {
    const auto origin = loaded.origins.find(CollectionKey(collection.name));
    absl::StrAppend(&text, "  - name: ", Quoted(collection.name),
                    origin == loaded.origins.end() ? "" : absl::StrCat("  # ", origin->second),
                    "\n    path: ", Quoted(collection.path),
                    "\n    residency: ", std::string(store::Name(collection.residency)),
                    "\n    replicate: ", std::string(store::Name(collection.replication)),
                    "\n    live: ", collection.live ? "true" : "false", "\n");
  }
  return text;
}

}  // namespace maxsim::config
