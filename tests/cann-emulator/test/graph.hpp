// Makes small ONNX models.
#pragma once

#include "../src/onnx/model.hpp"
#include "../src/onnx/wire.hpp"

#include <string>
#include <vector>

/// An attribute of a node, serialized.
struct Attr {
    std::string message;

    static Attr integer(const char* name, std::int64_t value) {
        return {named(name, onnx::Attribute::kInt).integer(3, value).message()};
    }
    static Attr real(const char* name, float value) {
        return {named(name, onnx::Attribute::kFloatAttr).float32(2, value).message()};
    }
    static Attr string(const char* name, const std::string& value) {
        return {named(name, onnx::Attribute::kString).bytes(4, value).message()};
    }
    static Attr integers(const char* name, const std::vector<std::int64_t>& values) {
        auto writer = named(name, onnx::Attribute::kInts);
        for (const auto value : values) writer.integer(8, value);
        return {writer.message()};
    }

private:
    static wire::Writer named(const char* name, int type) { return wire::Writer().bytes(1, name).integer(20, type); }
};

class GraphBuilder {
public:
    explicit GraphBuilder(const char* name, std::int64_t opset = 16) : opset_(opset) { graph_.bytes(2, name); }

    /// A dimension of -1 is left open.
    GraphBuilder& input(const char* name, int type, const onnx::Shape& shape) {
        graph_.bytes(11, value(name, type, shape));
        return *this;
    }
    GraphBuilder& output(const char* name, int type, const onnx::Shape& shape) {
        graph_.bytes(12, value(name, type, shape));
        return *this;
    }
    GraphBuilder& constant(const char* name, int type, const onnx::Shape& shape, const std::string& raw) {
        wire::Writer tensor;
        for (const auto size : shape) tensor.integer(1, size);
        graph_.bytes(5, tensor.integer(2, type).bytes(8, name).bytes(9, raw).message());
        return *this;
    }
    /// A constant whose values are a file.
    GraphBuilder& external(const char* name, int type, const onnx::Shape& shape, const char* file) {
        wire::Writer tensor;
        for (const auto size : shape) tensor.integer(1, size);
        const auto location = wire::Writer().bytes(1, "location").bytes(2, file).message();
        graph_.bytes(5, tensor.integer(2, type).bytes(8, name).bytes(13, location).integer(14, 1).message());
        return *this;
    }
    GraphBuilder& node(const char* op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                       const std::vector<Attr>& attributes = {}, const char* domain = "") {
        wire::Writer node;
        for (const auto& name : inputs) node.bytes(1, name);
        for (const auto& name : outputs) node.bytes(2, name);
        node.bytes(3, std::string(op) + "_" + outputs[0]).bytes(4, op);
        for (const auto& attribute : attributes) node.bytes(5, attribute.message);
        graph_.bytes(1, node.bytes(7, domain).message());
        return *this;
    }

    std::string model() const {
        const auto opset = wire::Writer().bytes(1, "").integer(2, opset_).message();
        return wire::Writer().integer(1, 8).bytes(8, opset).bytes(7, graph_.message()).message();
    }

private:
    static std::string value(const char* name, int type, const onnx::Shape& shape) {
        wire::Writer dims;
        for (const auto size : shape) {
            wire::Writer dim;
            if (size >= 0) dim.integer(1, size);
            else dim.bytes(2, std::string(name) + "_dim");
            dims.bytes(1, dim.message());
        }
        const auto tensor = wire::Writer().integer(1, type).bytes(2, dims.message()).message();
        return wire::Writer().bytes(1, name).bytes(2, wire::Writer().bytes(1, tensor).message()).message();
    }

    std::int64_t opset_;
    wire::Writer graph_;
};
