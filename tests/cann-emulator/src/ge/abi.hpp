// The part of GraphEngine's C++ ABI that the provider uses. Layouts and names are those of CANN's headers
// (graph/ascend_string.h, graph/graph.h, ge/ge_ir_build.h); the provider inlines the destructors, hence the shared
// pointers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#define GE_EXPORT __attribute__((visibility("default")))

namespace ge {

using graphStatus = std::uint32_t;
inline constexpr graphStatus GRAPH_SUCCESS = 0;
inline constexpr graphStatus GRAPH_FAILED = 0xFFFFFFFF;
inline constexpr graphStatus GRAPH_PARAM_INVALID = 50331649;

class GE_EXPORT AscendString {
public:
    AscendString() = default;
    AscendString(const char* text);
    bool operator<(const AscendString& other) const;
    const char* GetString() const { return text_ ? text_->c_str() : ""; }

private:
    std::shared_ptr<std::string> text_;
};

/// What the emulator keeps of a parsed graph.
class GraphImpl {
public:
    std::string name;   // as given to the constructor of Graph
    std::string model;  // the serialized ModelProto; empty before parsing
};

class GE_EXPORT Graph {
public:
    explicit Graph(const char* name);
    GraphImpl& impl() const { return *impl_; }

private:
    std::shared_ptr<GraphImpl> impl_;
};

struct ModelBufferData {
    std::shared_ptr<std::uint8_t> data;
    std::uint64_t length = 0;
};

using Options = std::map<AscendString, AscendString>;

GE_EXPORT graphStatus aclgrphParseONNXFromMem(const char* bytes, std::size_t size, const Options& options, Graph& graph);
GE_EXPORT graphStatus aclgrphBuildInitialize(Options& options);
GE_EXPORT void aclgrphBuildFinalize();
GE_EXPORT graphStatus aclgrphBuildModel(const Graph& graph, const Options& options, ModelBufferData& model);
GE_EXPORT graphStatus aclgrphSaveModel(const char* file, const ModelBufferData& model);

}  // namespace ge
