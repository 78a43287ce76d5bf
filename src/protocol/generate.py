#!/usr/bin/env python3
"""Write C structs and tables from the texts in src/protocol/schema.

    generate.py SCHEMA_DIR OUT_DIR

writes under OUT_DIR (the build directory's src/protocol):

    messages/NAME.h   structs of one API (request and response) or of one embedded schema
    api_keys.h        API_PRODUCE = 0, ...
    error_codes.h     ERR_NONE = 0, ...
    message_tables.c  the tables that codec.c walks, the API table and the error table

The same input gives the same bytes, and a file that would not change is not touched. The grammar
of the texts is in src/protocol/schema/README. Python's standard library only.
"""
import os
import re
import sys

PRIMITIVES = {
    # schema type: (C type, table type, bytes on the wire or None)
    "bool": ("bool", "FIELD_BOOL", 1),
    "int8": ("int8_t", "FIELD_INT8", 1),
    "int16": ("int16_t", "FIELD_INT16", 2),
    "uint16": ("uint16_t", "FIELD_UINT16", 2),
    "int32": ("int32_t", "FIELD_INT32", 4),
    "uint32": ("uint32_t", "FIELD_UINT32", 4),
    "int64": ("int64_t", "FIELD_INT64", 8),
    "float64": ("double", "FIELD_FLOAT64", 8),
    "uuid": ("struct uuid", "FIELD_UUID", 16),
    "string": ("struct str", "FIELD_STRING", None),
    "bytes": ("struct bytes", "FIELD_BYTES", None),
    "records": ("struct records", "FIELD_RECORDS", None),
}

C_WORDS = set("""auto break case char const continue default do double else enum extern float for goto
if inline int long register restrict return short signed sizeof static struct switch typedef union
unsigned void volatile while bool true false""".split())

NEVER = (1, 0)  # an empty range of versions


def fail(where, text):
    sys.exit("generate.py: %s: %s" % (where, text))


def snake(name):
    """TopicId -> topic_id, KRaftVersion -> kraft_version, Enable2Pc -> enable_2pc."""
    name = name.replace("KRaft", "Kraft").replace("2Pc", "2pc")
    name = re.sub(r"([a-z])(\d+[a-z])", r"\1_\2", name)
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    name = name.lower()
    return name + "_" if name in C_WORDS else name


def parse_range(text, where, valid=None):
    """'3', '1-4' or '2+' (open: up to the newest valid version)."""
    found = re.fullmatch(r"(\d+)(?:(\+)|-(\d+))?", text)
    if not found:
        fail(where, "bad range " + text)
    low = int(found.group(1))
    if found.group(2):
        return (low, valid[1] if valid else 32767)
    high = int(found.group(3)) if found.group(3) else low
    return (low, min(high, valid[1]) if valid else high)


def cut(a, b):
    low, high = max(a[0], b[0]), min(a[1], b[1])
    return (low, high) if low <= high else NEVER


def span(versions):
    """The range as a reader of the header wants it."""
    return "%d" % versions[0] if versions[0] == versions[1] else "%d-%d" % versions


class Field:
    def __init__(self, words, message, where):
        self.name = words[1]
        self.c_name = snake(self.name)
        self.json_name = self.name[0].lower() + self.name[1:]
        self.where = where
        type_text = words[2]
        self.is_array = type_text.startswith("[]")
        self.type = type_text[2:] if self.is_array else type_text
        if self.type.startswith("[]"):
            fail(where, "an array of arrays is not supported")
        self.is_struct = self.type not in PRIMITIVES
        self.versions = parse_range(words[3], where, message.valid)
        self.nulls, self.tag, self.tag_versions = NEVER, -1, NEVER
        self.default = None
        self.ignorable = self.old_encoding = False
        self.children = []
        for word in words[4:]:
            key, _, value = word.partition("=")
            if key == "null":
                self.nulls = parse_range(value, where, message.valid)
            elif key == "default":
                self.default = value
            elif key == "tag":
                number, _, versions = value.partition("@")
                self.tag = int(number)
                self.tag_versions = parse_range(versions, where, message.valid)
            elif key == "ignorable":
                self.ignorable = True
            elif word == "flexible=none":
                self.old_encoding = True
            elif key not in ("key", "entity"):
                fail(where, "unknown attribute " + word)
        if self.tag >= 0 and self.tag_versions != self.versions:
            fail(where, "a field is tagged in all of its versions or in none")
        if self.tag >= 0 and not (message.flexible[0] <= self.versions[0]):
            fail(where, "a tagged field needs flexible versions")
        # A nullable struct is a pointer in C, any other is embedded.
        self.is_pointer = self.is_struct and not self.is_array and self.nulls != NEVER

    def signature(self):
        """Equal for fields that may share a table."""
        return (self.name, self.type, self.is_array, self.versions, self.nulls, self.tag,
                self.default, self.ignorable, self.old_encoding,
                tuple(child.signature() for child in self.children))

    def min_size(self, version, message):
        """The fewest bytes that this untagged field takes in a version."""
        if self.tag >= 0 or not self.versions[0] <= version <= self.versions[1]:
            return 0
        flexible = message.is_flexible(version) and not self.old_encoding
        if self.is_array:
            return 1 if flexible else 4
        if self.is_struct:
            if self.nulls[0] <= version <= self.nulls[1]:
                return 1
            return min_struct_size(self.children, version, message)
        fixed = PRIMITIVES[self.type][2]
        if fixed:
            return fixed
        return 1 if flexible else 2 if self.type == "string" else 4


def min_struct_size(fields, version, message):
    return (sum(field.min_size(version, message) for field in fields)
            + (1 if message.is_flexible(version) else 0))


class Struct:
    """A C struct: the body of a message or a part of it."""

    def __init__(self, c_name, schema_name, fields):
        self.c_name = c_name
        self.schema_name = schema_name
        self.fields = fields


class Message:
    def __init__(self, name, kind):
        self.name = name
        self.kind = kind
        self.c_name = snake(name)
        self.valid = self.flexible = NEVER
        self.headers = {}
        self.fields = []
        self.structs = []  # parts first, the message itself last

    def is_flexible(self, version):
        return self.flexible[0] <= version <= self.flexible[1]

    def part_name(self, part):
        if part.startswith(self.name):
            return snake(part)
        return self.c_name + "_" + snake(part)

    def collect_structs(self):
        seen = {}

        def visit(fields):
            for field in fields:
                if not field.is_struct:
                    continue
                visit(field.children)
                c_name = self.part_name(field.type)
                signature = tuple(child.signature() for child in field.children)
                while c_name in seen and seen[c_name] != signature:
                    # Two different structs of one name: the second is called after its field.
                    c_name = self.part_name(field.type + "In" + field.name)
                    if seen.get(c_name, signature) != signature:
                        fail(field.where, "no name for " + field.type)
                if c_name not in seen:
                    seen[c_name] = signature
                    self.structs.append(Struct(c_name, field.type, field.children))
                field.struct_name = c_name

        visit(self.fields)
        self.structs.append(Struct(self.c_name, self.name, self.fields))
        for struct in self.structs:
            names = [field.c_name for field in struct.fields]
            names += [field.c_name + "_count" for field in struct.fields if field.is_array]
            names.append("unknown_tags")
            if len(set(names)) != len(names):
                fail(self.name, "two members of one name in struct " + struct.c_name)


class Api:
    def __init__(self, key, name):
        self.key, self.name = key, name
        self.listeners, self.route = [], None
        self.throttle_from = -1
        self.gone = []        # ranges that 4.3 does not serve
        self.back = []        # ranges that it serves again
        self.advertised_min = None
        self.request = self.response = None

    def served(self):
        """Lowest and highest version that a 4.3 broker takes; NEVER if it takes none."""
        low, high = self.request.valid
        versions = [v for v in range(low, high + 1)
                    if any(a <= v <= b for a, b in self.back)
                    or not any(a <= v <= b for a, b in self.gone)]
        if not versions:
            return NEVER
        if versions != list(range(versions[0], versions[-1] + 1)):
            fail(self.name, "the served versions have a hole")
        return (versions[0], versions[-1])


def parse_fields(lines, message, where):
    """Lines up to 'end' become a tree."""
    stack = [message.fields]
    while True:
        number, line = lines.pop(0)
        if line == "end":
            break
        text = line.lstrip(" ")
        depth = (len(line) - len(text)) // 2
        words = text.split(" ")
        here = "%s:%d" % (where, number)
        if words[0] != "field" or depth >= len(stack):
            fail(here, "expected a field: " + line)
        del stack[depth + 1:]
        field = Field(words, message, here)
        stack[depth].append(field)
        stack.append(field.children)
    check_fields(message.fields, where)
    message.collect_structs()


def check_fields(fields, where, in_tag=False):
    for field in fields:
        if field.type == "records" and (in_tag or field.tag >= 0):
            fail(field.where, "records inside a tag can't be spliced")
        if field.is_struct and not field.children:
            fail(field.where, "struct %s has no fields" % field.type)
        check_fields(field.children, where, in_tag or field.tag >= 0)
    tags = [field.tag for field in fields if field.tag >= 0]
    if len(set(tags)) != len(tags):
        fail(where, "a tag occurs twice")
    if len(tags) > 32:
        fail(where, "encode.c keeps a bit for each tagged field, in 32 bits")


def parse_message_head(message, lines, where):
    while lines and not lines[0][1].lstrip().startswith(("field ", "end")):
        number, line = lines.pop(0)
        key, _, rest = line.partition(" ")
        if key == "valid":
            message.valid = parse_range(rest, where)
        elif key == "flexible":
            message.flexible = NEVER if rest == "none" else parse_range(rest, where, message.valid)
        elif key == "header":
            for part in rest.split(" "):
                header, _, versions = part.partition(":")
                message.headers[int(header)] = parse_range(versions, where)
        elif key != "source":
            fail("%s:%d" % (where, number), "unknown line: " + line)


def numbered_lines(path):
    with open(path, encoding="utf-8") as file:
        return list(enumerate(file.read().split("\n")[:-1], 1))


def parse_api(path):
    where = os.path.basename(path)
    lines = numbered_lines(path)
    _, key, name = lines.pop(0)[1].split(" ")
    api = Api(int(key), name)
    while not lines[0][1].startswith("message "):
        number, line = lines.pop(0)
        words = line.split(" ")
        here = "%s:%d" % (where, number)
        if words[0] == "listeners":
            api.listeners = words[1:]
        elif words[0] == "route":
            api.route = words[1]
        elif words[0] == "client-throttle":
            api.throttle_from = parse_range(words[1], here)[0]
        elif words[0] in ("removed-in-4.0", "removed-in-4.1", "unreleased"):
            api.gone.append(parse_range(words[1], here))
            for word in words[2:]:
                if word.startswith("advertised-min="):
                    api.advertised_min = int(word.partition("=")[2])
        elif words[0] == "restored-in":
            api.back.append(parse_range(words[2], here))
        elif words[0] not in ("alias", "deprecated-before-4.0", "since"):
            fail(here, "unknown line: " + line)
    for kind in ("request", "response"):
        _, line_kind, message_name = lines.pop(0)[1].split(" ")
        if line_kind != kind:
            fail(where, "expected message " + kind)
        message = Message(message_name, kind)
        parse_message_head(message, lines, where)
        parse_fields(lines, message, where)
        setattr(api, kind, message)
    if lines:
        fail(where, "text behind the last message")
    return api


def parse_schema(path):
    where = os.path.basename(path)
    lines = numbered_lines(path)
    name = lines.pop(0)[1].split(" ")[1]
    kind = lines.pop(0)[1].split(" ")[1]
    message = Message(name, kind)
    parse_message_head(message, lines, where)
    parse_fields(lines, message, where)
    return message


def parse_errors(path):
    errors = []
    for _, line in numbered_lines(path):
        if not line.startswith("#"):
            number, name, retriable, refresh, kind = line.split(" ")[:5]
            errors.append((int(number), name, retriable == "yes", refresh == "yes", kind))
    return errors


# --- C headers ---

def member_text(field):
    base = "struct " + field.struct_name if field.is_struct else PRIMITIVES[field.type][0]
    star = "*" if field.is_array or field.is_pointer else ""
    lines = ["    %s %s%s;" % (base, star, field.c_name)]
    note = [span(field.versions)]
    if field.nulls != NEVER:
        note.append("null " + span(field.nulls))
    if field.tag >= 0:
        note.append("tag %d" % field.tag)
    if field.default is not None:
        note.append("default " + field.default)
    lines[0] += " /* %s */" % ", ".join(note)
    if field.is_array:
        lines.append("    int32_t %s_count;" % field.c_name)
    return lines


def struct_text(struct, message):
    out = ["struct %s {" % struct.c_name]
    for field in struct.fields:
        out += member_text(field)
    if message.flexible != NEVER:
        out.append("    const struct unknown_tags *unknown_tags; /* NULL: none */")
    elif not struct.fields:
        out.append("    char no_fields;")
    out.append("};")
    out.append("extern const struct %s %s_defaults;" % (struct.c_name, struct.c_name))
    out.append("static inline void %s_init(struct %s *m)" % (struct.c_name, struct.c_name))
    out += ["{", "    *m = %s_defaults;" % struct.c_name, "}", ""]
    return out


def header_text(title, source, messages):
    guard = "CAFKA_PROTOCOL_MESSAGES_%s_H" % snake(title).upper()
    out = ["/* Generated from src/protocol/schema/%s by generate.py; do not edit. */" % source,
           "#ifndef " + guard, "#define " + guard, "", '#include "protocol/codec.h"', ""]
    for message in messages:
        versions = "versions %s" % span(message.valid)
        if message.flexible != NEVER:
            versions += ", flexible %s" % span(message.flexible)
        out.append("/* %s: %s. Behind a field: the versions that have it. */" % (message.name, versions))
        out.append("")
        for struct in message.structs:
            out += struct_text(struct, message)
        out.append("extern const struct message %s_message;" % message.c_name)
        out.append("")
    out += ["#endif", ""]
    return "\n".join(out)


# --- C tables ---

C_NUMBERS = {"-2147483648": "INT32_MIN", "9223372036854775807": "INT64_MAX"}


def default_value(field):
    """The initializer of a member, or None where all bytes are zero."""
    if field.is_array:
        return None  # the count is a member of its own, see struct_defaults()
    if field.is_pointer:
        # Without "default=null" a nullable struct starts as one that holds its own defaults.
        if field.default == "null":
            return None
        return "(struct %s *)&%s_defaults" % (field.struct_name, field.struct_name)
    if field.is_struct:
        return struct_defaults(field.children)
    if field.type == "string":
        return None if field.default == "null" else '{"", 0}'
    if field.type == "bytes":
        return None if field.default == "null" else '{(const uint8_t *)"", 0}'
    if field.default in (None, "0", "false", "null"):
        return None
    return C_NUMBERS.get(field.default, field.default)


def struct_defaults(fields):
    parts = []
    for field in fields:
        if field.is_array and field.default == "null":
            parts.append(".%s_count = -1" % field.c_name)
        value = default_value(field)
        if value is not None:
            parts.append(".%s = %s" % (field.c_name, value))
    return "{%s}" % ", ".join(parts) if parts else None


def range_text(versions):
    return "%d, %d" % versions


def field_row(field, c_struct):
    flags = [text for text, on in (
        ("FIELD_ARRAY", field.is_array), ("FIELD_POINTER", field.is_pointer),
        ("FIELD_IGNORABLE", field.ignorable), ("FIELD_OLD_ENCODING", field.old_encoding)) if on]
    return '    {"%s", %s, offsetof(struct %s, %s), %s, %s, %s, %s, %d},' % (
        field.json_name, "&%s_table" % field.struct_name if field.is_struct else "NULL",
        c_struct, field.c_name,
        "FIELD_STRUCT" if field.is_struct else PRIMITIVES[field.type][1],
        " | ".join(flags) or "0", range_text(field.versions), range_text(field.nulls), field.tag)


def table_text(struct, message):
    name = struct.c_name
    out = []
    defaults = struct_defaults(struct.fields)
    out.append("const struct %s %s_defaults = %s;" % (name, name, defaults or "{0}"))
    if struct.fields:
        out.append("static const struct field %s_fields[] = {" % name)
        out += [field_row(field, name) for field in struct.fields]
        out.append("};")
    tagged = sorted((field.tag, index) for index, field in enumerate(struct.fields) if field.tag >= 0)
    if tagged:
        out.append("static const uint8_t %s_tagged[] = {%s};"
                   % (name, ", ".join(str(index) for _, index in tagged)))
    sizes = [min_struct_size(struct.fields, version, message)
             for version in range(message.valid[0], message.valid[1] + 1)]
    if len(set(sizes)) == 1:
        sizes_name = None
    else:
        sizes_name = name + "_min_sizes"
        out.append("static const uint16_t %s[] = {%s};" % (sizes_name, ", ".join(map(str, sizes))))
    out.append("static const struct table %s_table = {" % name)
    out.append('    .name = "%s", .fields = %s, .defaults = &%s_defaults,'
               % (struct.schema_name, name + "_fields" if struct.fields else "no_fields", name))
    out.append("    .size = sizeof(struct %s), .field_count = %d, .min_size = %d,"
               % (name, len(struct.fields), min(sizes)))
    if sizes_name:
        out.append("    .min_sizes = %s, .first_version = %d," % (sizes_name, message.valid[0]))
    if tagged:
        out.append("    .tagged = %s_tagged, .tagged_count = %d," % (name, len(tagged)))
    if defaults:
        out.append("    .has_defaults = true,")
    out.append("    .unknown_tags = %s," % ("offsetof(struct %s, unknown_tags)" % name
                                            if message.flexible != NEVER else "NO_UNKNOWN_TAGS"))
    out += ["};", ""]
    return out


def message_text(message):
    out = []
    for struct in message.structs:
        out += table_text(struct, message)
    out.append("const struct message %s_message = {" % message.c_name)
    flexible = message.flexible[0] if message.flexible != NEVER else message.valid[1] + 1
    out.append('    .name = "%s", .table = &%s_table, .min_version = %d, .max_version = %d,'
               % (message.name, message.c_name, message.valid[0], message.valid[1]))
    out.append("    .flexible_from = %d," % flexible)
    out += ["};", ""]
    return out


LISTENERS = {"broker": "API_ON_BROKER", "controller": "API_ON_CONTROLLER", "zkBroker": "API_ON_ZK_BROKER"}
ROUTES = {None: "API_ROUTE_ANY", "group-coordinator": "API_ROUTE_GROUP", "txn-coordinator": "API_ROUTE_TXN",
          "share-coordinator": "API_ROUTE_SHARE", "controller": "API_ROUTE_CONTROLLER"}


def api_row(api):
    low, high = api.served()
    return '    {%d, "%s", &%s_message, &%s_message, %d, %d, %d, %s, %s},' % (
        api.key, api.name, api.request.c_name, api.response.c_name, low, high, api.throttle_from,
        " | ".join(LISTENERS[name] for name in api.listeners), ROUTES[api.route])


def advertised_min(api):
    low = api.served()[0]
    return low if api.advertised_min is None else api.advertised_min


def header_rule(api, kind, message):
    """The newest header of each kind follows from flexibility; what differs is in codec.c."""
    new, old = (2, 1) if kind == "request" else (1, 0)
    for header, (low, high) in message.headers.items():
        for version in range(low, high + 1):
            expected = new if message.is_flexible(version) else old
            if api.name == "ApiVersions" and kind == "response":
                expected = 0
            if api.name == "ControlledShutdown" and kind == "request" and version == 0:
                expected = 0
            if header != expected:
                fail(api.name, "header %d of %s version %d breaks the rule" % (header, kind, version))


ERROR_CLASSES = {
    "-": "CLASS_NONE", "other": "CLASS_OTHER", "retriable": "CLASS_RETRIABLE",
    "invalid-metadata": "CLASS_INVALID_METADATA", "refresh-retriable": "CLASS_REFRESH_RETRIABLE",
    "abortable": "CLASS_ABORTABLE", "application-recoverable": "CLASS_APPLICATION_RECOVERABLE",
    "authorization": "CLASS_AUTHORIZATION", "authentication": "CLASS_AUTHENTICATION",
    "invalid-configuration": "CLASS_INVALID_CONFIGURATION"}


def tables_text(apis, schemas, errors):
    out = ["/* Generated from src/protocol/schema by generate.py; do not edit. */",
           '#include "protocol/tables.h"', ""]
    out += ['#include "protocol/messages/%s.h"' % api.name for api in apis]
    out += ['#include "protocol/messages/%s.h"' % schema.name for schema in schemas]
    out.append("")
    out += ["static const struct field no_fields[1] = {{0}};", ""]
    messages = [message for api in apis for message in (api.request, api.response)] + schemas
    for message in messages:
        out += message_text(message)
    out.append("/* By key; the API's number is its index. */")
    out.append("const struct api api_table[API_KEY_COUNT] = {")
    out += [api_row(api) for api in apis]
    out += ["};", ""]
    out.append("const int8_t api_advertised_min_table[API_KEY_COUNT] = {")
    out.append("    " + ", ".join(str(advertised_min(api)) for api in apis))
    out += ["};", ""]
    out.append("/* By name, in the order of strcmp(). */")
    out.append("const struct message *const message_table[] = {")
    out += ["    &%s_message," % message.c_name
            for message in sorted(messages, key=lambda message: message.name)]
    out += ["};", "const size_t message_table_count = %d;" % len(messages), ""]
    out.append("const struct protocol_error protocol_error_table[] = {")
    out += ['    {%d, "%s", %s, %s, %s},' % (number, name, str(retriable).lower(), str(refresh).lower(),
                                            ERROR_CLASSES[kind])
            for number, name, retriable, refresh, kind in errors]
    out += ["};", "const size_t protocol_error_table_count = %d;" % len(errors), ""]
    return "\n".join(out)


def enum_text(what, title, constants):
    guard = "CAFKA_PROTOCOL_%s_H" % title
    out = ["/* Generated from src/protocol/schema by generate.py; do not edit. */",
           "#ifndef " + guard, "#define " + guard, "", "/* %s */" % what, "enum {"]
    out += ["    %s = %d," % constant for constant in constants]
    out[-1] = out[-1].rstrip(",")
    out += ["};", "", "#endif", ""]
    return "\n".join(out)


def write_if_new(path, text):
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    except OSError:
        pass
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


def texts_in(directory):
    return sorted(name for name in os.listdir(directory) if name.endswith(".txt"))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    schema_dir, out_dir = sys.argv[1:]
    api_files = [name for name in texts_in(schema_dir) if re.match(r"\d{3}-", name)]
    apis = [parse_api(os.path.join(schema_dir, name)) for name in api_files]
    if [api.key for api in apis] != list(range(len(apis))):
        fail(schema_dir, "the API keys have a hole")
    for api in apis:
        header_rule(api, "request", api.request)
        header_rule(api, "response", api.response)
    data_files = texts_in(os.path.join(schema_dir, "data"))
    schemas = [parse_schema(os.path.join(schema_dir, "data", name)) for name in data_files]
    errors = parse_errors(os.path.join(schema_dir, "errors.txt"))

    os.makedirs(os.path.join(out_dir, "messages"), exist_ok=True)
    for api, name in zip(apis, api_files):
        write_if_new(os.path.join(out_dir, "messages", api.name + ".h"),
                     header_text(api.name, name, [api.request, api.response]))
    for schema, name in zip(schemas, data_files):
        write_if_new(os.path.join(out_dir, "messages", schema.name + ".h"),
                     header_text(schema.name, "data/" + name, [schema]))
    write_if_new(os.path.join(out_dir, "api_keys.h"), enum_text(
        "The API keys.", "API_KEYS", [("API_" + snake(api.name).upper(), api.key) for api in apis]))
    write_if_new(os.path.join(out_dir, "error_codes.h"), enum_text(
        "The error codes of the protocol, class org.apache.kafka.common.protocol.Errors.", "ERROR_CODES",
        [("ERR_" + name, number) for number, name, *_ in errors]))
    write_if_new(os.path.join(out_dir, "message_tables.c"), tables_text(apis, schemas, errors))


if __name__ == "__main__":
    main()
