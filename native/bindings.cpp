// What Python sees: a few functions that take a call in plain numbers, and some about the engine.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <sys/mman.h>

#include <stdexcept>

#include "ask.h"
#include "run.h"
#include "threads.h"

namespace nb = nanobind;

namespace {

// Reads a flat tuple of whole numbers from left to right.
class Reader {
 public:
  explicit Reader(const nb::tuple& numbers) : numbers_(numbers) {}
  int64_t next() {
    if (at_ >= PyTuple_GET_SIZE(numbers_.ptr())) throw std::invalid_argument("too few numbers");
    const int64_t n = PyLong_AsLongLong(PyTuple_GET_ITEM(numbers_.ptr(), at_++));
    if (n == -1 && PyErr_Occurred()) throw nb::python_error();
    return n;
  }
  template <class T>
  T* pointer() {
    return reinterpret_cast<T*>(next());
  }
  bool done() const { return at_ == PyTuple_GET_SIZE(numbers_.ptr()); }

 private:
  const nb::tuple& numbers_;
  Py_ssize_t at_ = 0;
};

// An address and the steps of its axes, in items of `size` bytes: (…lead, head, row, column).
regard::Array array(Reader& in, int leads, int64_t size) {
  regard::Array a;
  a.data = in.pointer<char>();
  if (!a.data) return a;
  for (int i = 0; i < leads; ++i) a.lead[i] = in.next() * size;
  a.head = in.next() * size;
  a.row = in.next() * size;
  a.column = in.next() * size;
  return a;
}

regard::Call call_of(Reader& in, double scale, double softcap, double kept) {
  regard::Call c;
  c.dtype = static_cast<regard::Dtype>(in.next());
  c.leads = static_cast<int>(in.next());
  if (c.leads > regard::MAX_LEAD) throw std::invalid_argument("too many leading axes");
  for (int i = 0; i < c.leads; ++i) c.B *= c.lead[i] = in.next();
  c.H = in.next();
  c.G = in.next();
  c.T = in.next();
  c.S = in.next();
  c.D = in.next();
  c.E = in.next();
  const int64_t size = regard::size_of(c.dtype), wide = size == 8 ? 8 : 4;
  c.q = array(in, c.leads, size);
  c.k = array(in, c.leads, size);
  c.v = array(in, c.leads, size);
  c.out = array(in, c.leads, size);
  c.lse_dtype = static_cast<regard::Dtype>(in.next());
  c.lse = array(in, c.leads, regard::size_of(c.lse_dtype));
  c.sink = array(in, c.leads, wide);
  c.first = in.pointer<const int64_t>();
  c.last = in.pointer<const int64_t>();
  if (c.first) {
    c.ranges = in.next();
    for (int i = 0; i < c.leads; ++i) c.range_lead[i] = in.next();
  }
  c.mask = array(in, c.leads, 1);
  c.threshold = static_cast<uint64_t>(in.next());
  c.seed = static_cast<uint32_t>(in.next());
  c.all_rows = in.next();
  c.first_row = in.next();
  c.drawn = in.next();
  c.biases = static_cast<int>(in.next());
  if (c.biases > regard::MAX_BIAS) throw std::invalid_argument("too many biases");
  for (int i = 0; i < c.biases; ++i) {
    c.bias[i].dtype = static_cast<regard::Dtype>(in.next());
    c.bias[i].array = array(in, c.leads, regard::size_of(c.bias[i].dtype));
  }
  c.scale = scale;
  c.softcap = softcap;
  c.kept = kept;
  return c;
}

void attend(const nb::tuple& numbers, double scale, double softcap, double kept) {
  Reader in(numbers);
  const regard::Call call = call_of(in, scale, softcap, kept);
  if (!in.done()) throw std::invalid_argument("too many numbers");
  nb::gil_scoped_release release;
  regard::run(call);
}

// Finds where a NumPy array or a torch tensor of so many rows lies; false if its last axis is not
// contiguous.
bool find(nb::handle array, const regard::Call& call, int64_t rows, int64_t width, regard::Array& a) {
  const bool some = call.B * rows * width > 0;
  static PyObject* const data_ptr = PyUnicode_InternFromString("data_ptr");
  static PyObject* const stride = PyUnicode_InternFromString("stride");
  const int axes = call.leads + 3;
  const int64_t size = regard::size_of(call.dtype);
  int64_t steps[regard::MAX_LEAD + 3];
  if (PyObject_CheckBuffer(array.ptr())) {
    Py_buffer view;
    if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_STRIDES)) throw nb::python_error();
    a.data = static_cast<char*>(view.buf);
    const bool fits = view.ndim == axes;
    bool whole = true;  // steps are so many numbers
    for (int i = 0; fits && i < axes; ++i) whole &= (steps[i] = view.strides[i]) % size == 0;
    PyBuffer_Release(&view);
    if (!fits) throw std::invalid_argument("an array of other axes");
    if (!whole) return false;
  } else {
    const nb::object at = nb::steal(PyObject_CallMethodNoArgs(array.ptr(), data_ptr));
    const nb::object found = at ? nb::steal(PyObject_CallMethodNoArgs(array.ptr(), stride)) : at;
    if (!found) throw nb::python_error();
    if (!PyTuple_Check(found.ptr()) || PyTuple_GET_SIZE(found.ptr()) != axes)
      throw std::invalid_argument("an array of other axes");
    a.data = static_cast<char*>(PyLong_AsVoidPtr(at.ptr()));
    for (int i = 0; i < axes; ++i)
      steps[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(found.ptr(), i)) * size;
    if (PyErr_Occurred()) throw nb::python_error();
  }
  if (!a.data && some) throw std::invalid_argument("an array that lies nowhere");
  if (!a.data) a.data = reinterpret_cast<char*>(64);
  for (int i = 0; i < call.leads; ++i) a.lead[i] = steps[i];
  a.head = steps[call.leads];
  a.row = steps[call.leads + 1];
  a.column = steps[call.leads + 2];
  return a.column == size || width < 2 || !some;
}

// A call that is made again and again, with other arrays of the same shapes.
class Again {
 public:
  Again(const nb::tuple& numbers, double scale, double softcap, double kept) {
    Reader in(numbers);
    call_ = call_of(in, scale, softcap, kept);
    if (!in.done()) throw std::invalid_argument("too many numbers");
  }
  // False, and nothing is done, if the last axis of one of them is not contiguous.
  bool attend(nb::handle q, nb::handle k, nb::handle v, nb::handle output) const {
    regard::Call call = call_;
    const int64_t queries = call.H * call.T, keys = call.G * call.S;
    const bool near = find(q, call, queries, call.D, call.q) & find(k, call, keys, call.D, call.k) &
                      find(v, call, keys, call.E, call.v) &
                      find(output, call, queries, call.E, call.out);
    if (!near) return false;
    nb::gil_scoped_release release;
    regard::run(call);
    return true;
  }

 private:
  regard::Call call_;
};

int how_many(Reader& in) {
  const int64_t n = in.next();
  if (n > regard::MAX_ASKED) throw std::invalid_argument("too many questions of a kind");
  return static_cast<int>(n);
}

void ask(const nb::tuple& numbers, const nb::tuple& asked, double scale, double softcap) {
  Reader in(numbers);
  const regard::Call call = call_of(in, scale, softcap, 1);
  if (!in.done()) throw std::invalid_argument("too many numbers");
  regard::Ask a;
  Reader more(asked);
  a.lse = more.pointer<char>();
  a.entropy = more.pointer<char>();
  a.received = more.pointer<double>();
  a.received_step = more.next();
  a.distance = more.pointer<double>();
  a.strongest_count = how_many(more);
  for (int i = 0; i < a.strongest_count; ++i) {
    a.strongest[i].k = more.next();
    a.strongest[i].weights = more.pointer<char>();
    a.strongest[i].keys = more.pointer<int64_t>();
  }
  a.share_count = how_many(more);
  for (int i = 0; i < a.share_count; ++i) {
    a.share[i].marks = more.pointer<const uint32_t>();
    a.share[i].first = more.next();
    a.share[i].last = more.next();
    a.share[i].out = more.pointer<char>();
  }
  a.entries_count = how_many(more);
  for (int i = 0; i < a.entries_count; ++i) {
    a.entries[i].keys = more.pointer<const int64_t>();
    a.entries[i].count = more.next();
    a.entries[i].out = more.pointer<char>();
  }
  a.picture_count = how_many(more);
  for (int i = 0; i < a.picture_count; ++i) {
    regard::Picture& p = a.picture[i];
    p.largest = more.next() != 0;
    p.first_row = more.next();
    p.last_row = more.next();
    p.block_rows = more.next();
    p.first_key = more.next();
    p.last_key = more.next();
    p.block_keys = more.next();
    p.out = more.pointer<double>();
  }
  if (!more.done()) throw std::invalid_argument("too many numbers");
  nb::gil_scoped_release release;
  regard::ask(call, a);
}

// The numbers of the call, then those of its gradients.
bool gradients(const nb::tuple& numbers, double scale, double softcap, double kept) {
  Reader in(numbers);
  const regard::Call c = call_of(in, scale, softcap, kept);
  regard::Gradients g;
  const int64_t size = regard::size_of(c.dtype), wide = size == 8 ? 8 : 4;
  g.along = array(in, c.leads, size);
  g.along_lse = array(in, c.leads, wide);
  g.dtype = static_cast<regard::Dtype>(in.next());
  for (regard::Array* to : {&g.q, &g.k, &g.v}) *to = array(in, c.leads, regard::size_of(g.dtype));
  for (int i = 0; i < c.biases; ++i) {
    g.bias[i] = array(in, c.leads, wide);
    g.put[i] = in.next() != 0;
  }
  g.whole = in.next() != 0;
  g.together = in.next();
  if (!in.done()) throw std::invalid_argument("too many numbers");
  nb::gil_scoped_release release;
  return regard::run_backward(c, g);
}

// Asks for large pages where fresh memory lies: to be given it in small ones takes longer than to
// write it.
void use_large_pages(uintptr_t address, size_t bytes) {
#if defined(MADV_HUGEPAGE)
  const uintptr_t page = 4096, from = (address + page - 1) / page * page;
  const uintptr_t to = (address + bytes) / page * page;
  if (from < to) madvise(reinterpret_cast<void*>(from), to - from, MADV_HUGEPAGE);
#else
  (void)address;
  (void)bytes;
#endif
}

}  // namespace

NB_MODULE(_native, m) {
  m.doc() = "The C++ engine.";
  nb::set_leak_warnings(false);  // what is remembered of calls lives as long as the process
  m.def("attend", &attend);
  nb::class_<Again>(m, "Again")
      .def(nb::init<const nb::tuple&, double, double, double>())
      .def("attend", &Again::attend);
  m.def("ask", &ask);
  m.def("gradients", &gradients);
  m.def("use_large_pages", &use_large_pages);
  m.def("levels", [] {
    std::vector<std::string> names;
    for (const regard::Level* const* l = regard::levels(); *l; ++l) names.emplace_back((*l)->name);
    return names;
  });
  m.def("level", [] { return std::string(regard::level_in_use().name); });
  m.def("use_level", [](const std::string& name) {
    regard::use_level(name.empty() ? nullptr : name.c_str());
  });
  m.def("threads", &regard::thread_count);
  m.def("set_threads", &regard::set_thread_count);
  m.def("thread_source", [] { return std::string(regard::thread_source()); });
}
