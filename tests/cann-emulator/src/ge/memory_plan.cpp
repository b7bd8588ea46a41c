#include "memory_plan.hpp"

#include <algorithm>
#include <set>

namespace ge {
namespace {

using Name = std::string_view;

std::size_t aligned(std::size_t bytes) {
    constexpr std::size_t kAlignment = 512;  // GraphEngine's, for each tensor
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Operators that GraphEngine turns into another view of their first input.
bool is_view(const onnx::Node& node) {
    static const std::set<Name> views = {"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"};
    return views.count(node.op) != 0;
}

}  // namespace

MemoryPlan plan_memory(const onnx::Model& model, const Values& values) {
    MemoryPlan plan{0, 0};
    std::set<Name> not_counted;
    for (const auto& input : model.inputs) not_counted.insert(input.name);
    for (const auto& output : model.outputs) not_counted.insert(output.name);
    for (const auto& constant : model.initializers) {
        plan.weights += aligned(constant.bytes());
        not_counted.insert(constant.name);
    }
    for (const auto& node : model.nodes) {
        const auto* value = node.op == "Constant" ? node.attribute("value", onnx::Attribute::kTensor) : nullptr;
        if (!value) continue;
        plan.weights += aligned(value->tensor->bytes());
        not_counted.insert(node.outputs.at(0));
    }

    std::map<Name, Name> memory_of;  // whose memory a value lies in
    const auto root = [&](Name name) {
        const auto found = memory_of.find(name);
        return found == memory_of.end() ? name : found->second;
    };
    std::map<Name, std::size_t> last_use;  // by whose memory: the number of the node
    for (std::size_t i = 0; i < model.nodes.size(); ++i) {
        const auto& node = model.nodes[i];
        for (const auto name : node.outputs) {
            if (is_view(node)) memory_of[name] = root(node.inputs.at(0));
            last_use[root(name)] = i;
        }
        for (const auto name : node.inputs) last_use[root(name)] = i;
    }

    std::size_t now = 0;
    std::map<std::size_t, std::size_t> freed;  // bytes, by the number of the node after which they are
    for (std::size_t i = 0; i < model.nodes.size(); ++i) {
        for (const auto name : model.nodes[i].outputs) {
            if (name.empty() || not_counted.count(name) || root(name) != name) continue;
            const auto bytes = aligned(values.at(name).bytes());
            now += bytes;
            freed[last_use[name]] += bytes;
        }
        plan.workspace = std::max(plan.workspace, now);
        now -= freed[i];
    }
    return plan;
}

}  // namespace ge
