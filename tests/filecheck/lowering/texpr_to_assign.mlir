// RUN: ocannl-opt %s -p infer-projections,lower-texpr-to-assign | filecheck %s

// Memory is declared first, expressions are computed in order where they are asked for.
// CHECK-LABEL: assign.routine @order {
// CHECK-NEXT:    %x = assign.node "x" constant because "data" : memref<3xf32>
// CHECK-NEXT:    %w = assign.node "w" on_device because "parameter" : memref<3xf32>
// CHECK-NEXT:    %n = assign.node "n" on_device because "node" : memref<3xf32>
// CHECK-NEXT:    %a = assign.node "a" local because "intermediate value" : memref<3xf32>
// CHECK-NEXT:    %b = assign.node "b" on_device because "computed by forward" : memref<3xf32>
// CHECK-NEXT:    assign.comment "forward"
// CHECK-NEXT:    assign.accum %a[o] := mul(%w[o], %x[o]) over (o = 3)
// CHECK-NEXT:    assign.accum %b[o] := neg(%a[o]) over (o = 3)
// CHECK-NEXT:    assign.comment "node"
// CHECK-NEXT:    assign.accum %n[o] add= %b[o] over (o = 3)
// CHECK-NEXT:  }
texpr.routine @order {
  %x = texpr.data "x" : !texpr.tensor<3, f32>
  %w = texpr.param "w" : !texpr.tensor<3, f32>
  %unused = texpr.apply = exp(%x) logic "." : !texpr.tensor<3, f32>
  %a = texpr.apply = mul(%w, %x) logic "." : !texpr.tensor<3, f32>
  %b = texpr.apply = neg(%a) logic "." : !texpr.tensor<3, f32>
  %n = texpr.node "n" : !texpr.tensor<3, f32>
  texpr.comment "forward"
  texpr.forward %b
  texpr.comment "node"
  texpr.assign %n add= %b logic "."
}

// What is computed again waits for longer chains.
// CHECK-LABEL: assign.routine @again {
// CHECK:         assign.accum %b[o] := exp(%a[o]) over (o = 3)
// CHECK-NEXT:    assign.accum %c[o] := exp(%b[o]) over (o = 3)
// CHECK-NEXT:    assign.accum %x_again[o] := %x[o] over (o = 3)
// CHECK-NEXT:    assign.accum %d[o] := exp(%x_again[o]) over (o = 3)
// CHECK-NEXT:    assign.accum %e[o] := mul(%d[o], %c[o]) over (o = 3)
texpr.routine @again {
  %x = texpr.data "x" : !texpr.tensor<3, f32>
  %x_again = texpr.apply = %x logic "." again : !texpr.tensor<3, f32>
  %a = texpr.apply = exp(%x) logic "." : !texpr.tensor<3, f32>
  %b = texpr.apply = exp(%a) logic "." : !texpr.tensor<3, f32>
  %c = texpr.apply = exp(%b) logic "." : !texpr.tensor<3, f32>
  %d = texpr.apply = exp(%x_again) logic "." : !texpr.tensor<3, f32>
  %e = texpr.apply = mul(%d, %c) logic "." : !texpr.tensor<3, f32>
  texpr.forward %e
}

// An expression is computed once, until memory that it reads is written.
// CHECK-LABEL: assign.routine @recomputation {
// CHECK-NEXT:    %x = assign.node "x" constant because "data" : memref<3xf32>
// CHECK-NEXT:    %w = assign.node "w" on_device because "parameter" : memref<3xf32>
// CHECK-NEXT:    %n = assign.node "n" on_device because "node" : memref<3xf32>
// CHECK-NEXT:    %a = assign.node "a" local because "intermediate value" : memref<3xf32>
// CHECK-NEXT:    %b = assign.node "b" local because "intermediate value" : memref<3xf32>
// CHECK-NEXT:    assign.accum %a[o] := exp(%x[o]) over (o = 3)
// CHECK-NEXT:    assign.accum %b[o] := mul(%w[o], %a[o]) over (o = 3)
// CHECK-NEXT:    assign.accum %n[o] = %b[o] over (o = 3)
// CHECK-NEXT:    assign.accum %n[o] = %b[o] over (o = 3)
// CHECK-NEXT:    assign.accum %w[o] = %a[o] over (o = 3)
// CHECK-NEXT:    assign.accum %b[o] := mul(%w[o], %a[o]) over (o = 3)
// CHECK-NEXT:    assign.accum %n[o] = %b[o] over (o = 3)
// CHECK-NEXT:  }
texpr.routine @recomputation {
  %x = texpr.data "x" : !texpr.tensor<3, f32>
  %w = texpr.param "w" : !texpr.tensor<3, f32>
  %n = texpr.node "n" : !texpr.tensor<3, f32>
  %a = texpr.apply = exp(%x) logic "." : !texpr.tensor<3, f32>
  %b = texpr.apply = mul(%w, %a) logic "." : !texpr.tensor<3, f32>
  texpr.assign %n = %b logic "."
  texpr.assign %n = %b logic "."
  texpr.assign %w = %a logic "."
  texpr.assign %n = %b logic "."
}

// What was computed by `forward` keeps its value, and so does what is asked for its value.
// CHECK-LABEL: assign.routine @kept {
// CHECK-NEXT:    %x = assign.node "x" constant because "data" : memref<3xf32>
// CHECK-NEXT:    %a = assign.node "a" on_device because "its value is asked for" : memref<3xf32>
// CHECK-NEXT:    %n = assign.node "n" on_device because "node" : memref<3xf32>
// CHECK-NEXT:    %b = assign.node "b" on_device because "computed by forward" : memref<3xf32>
// CHECK-NEXT:    assign.accum %n[o] = %a[o] over (o = 3)
// CHECK-NEXT:    assign.accum %a[o] := exp(%x[o]) over (o = 3)
// CHECK-NEXT:    assign.accum %b[o] := neg(%a[o]) over (o = 3)
// CHECK-NEXT:    assign.accum %n[o] = %a[o] over (o = 3)
// CHECK-NEXT:  }
texpr.routine @kept {
  %x = texpr.data "x" : !texpr.tensor<3, f32>
  %a = texpr.apply = exp(%x) logic "." : !texpr.tensor<3, f32>
  %b = texpr.apply = neg(%a) logic "." : !texpr.tensor<3, f32>
  %v = texpr.value %a : !texpr.tensor<3, f32>
  %n = texpr.node "n" : !texpr.tensor<3, f32>
  texpr.assign %n = %v logic "."
  texpr.forward %b
  texpr.assign %n = %v logic "."
}

// The value of another context is memory, which nothing here writes.
// CHECK-LABEL: assign.routine @merges {
// CHECK-NEXT:    %w = assign.node "w" on_device because "parameter" : memref<3xf32>
// CHECK-NEXT:    %m = assign.node "w.merge" on_device because "merge buffer" : memref<3xf32>
// CHECK-NEXT:    assign.accum %w[o] add= %m[o] over (o = 3)
// CHECK-NEXT:    assign.accum %w[o] add= %m[o] over (o = 3)
// CHECK-NEXT:  }
texpr.routine @merges {
  %w = texpr.param "w" : !texpr.tensor<3, f32>
  %m = texpr.merge "w.merge" of %w from 0 : !texpr.tensor<3, f32>
  texpr.assign %w add= %m logic "."
  texpr.assign %w add= %m logic "."
}

// Numbers go into the term that uses them; alone they are assigned.
// CHECK-LABEL: assign.routine @constants {
// CHECK-NEXT:    %x = assign.node "x" constant because "data" : memref<3xf32>
// CHECK-NEXT:    %n = assign.node "n" on_device because "node" : memref<3xf32>
// CHECK-NEXT:    %a = assign.node "a" local because "intermediate value" : memref<3xf32>
// CHECK-NEXT:    %b = assign.node "b" on_device because "computed by forward" : memref<3xf32>
// CHECK-NEXT:    %c = assign.node "c" on_device because "computed by forward" : memref<3x1xf32>
// CHECK-NEXT:    assign.accum %a[o] := mul(%x[o], 2.0) over (o = 3)
// CHECK-NEXT:    assign.accum %b[o] := %a[o] over (o = 3)
// CHECK-NEXT:    assign.accum %c[i, 0] := 0.5 over (i = 3)
// CHECK-NEXT:    assign.accum %n[o] = 2.0 over (o = 3)
// CHECK-NEXT:  }
texpr.routine @constants {
  %x = texpr.data "x" : !texpr.tensor<3, f32>
  %two = texpr.constant 2.0 : !texpr.tensor<3, f32>
  %one = texpr.constant 1.0 : !texpr.tensor<3, f32>
  %a = texpr.apply = mul(%x, %two) logic "." : !texpr.tensor<3, f32>
  %b = texpr.apply = mul(%a, %one) logic "." : !texpr.tensor<3, f32>
  %c = texpr.constant 0.5 : !texpr.tensor<3, 1, f32>
  %n = texpr.node "n" : !texpr.tensor<3, f32>
  texpr.forward %b
  texpr.forward %c
  texpr.assign %n = %two logic "."
}

// Static indices become scalars, one for each expression and type.
// CHECK-LABEL: assign.routine @embeds indices (n, m = 4) {
// CHECK-NEXT:    %e = assign.node "e" on_device because "computed by forward" : memref<3xf32>
// CHECK-NEXT:    %a = assign.node "a" local because "intermediate value" : memref<3xf32>
// CHECK-NEXT:    %b = assign.node "b" on_device because "computed by forward" : memref<3xf64>
// CHECK-NEXT:    %0 = assign.embed 2*n + 1 : f32
// CHECK-NEXT:    %1 = assign.embed m : f64
// CHECK-NEXT:    assign.accum %e[i] := %0[] over (i = 3)
// CHECK-NEXT:    assign.accum %a[o] := mul(%0[], %0[]) over (o = 3)
// CHECK-NEXT:    assign.accum %b[o] := add(%a[o], %1[]) over (o = 3)
// CHECK-NEXT:  }
texpr.routine @embeds indices (n, m = 4) {
  %e = texpr.embed 2*n + 1 : !texpr.tensor<3, f32>
  %f = texpr.embed 2*n + 1 : !texpr.tensor<f32>
  %g = texpr.embed m : !texpr.tensor<3, f64>
  %a = texpr.apply = mul(%e, %f) logic "." : !texpr.tensor<3, f32>
  %b = texpr.apply = add(%a, %g) logic "." : !texpr.tensor<3, f64>
  texpr.forward %b
  texpr.forward %e
}

// CHECK-LABEL: assign.routine @range {
// CHECK-NEXT:    %r = assign.node "r" local because "intermediate value" : memref<3xf32>
// CHECK-NEXT:    %a = assign.node "a" on_device because "computed by forward" : memref<3xf32>
// CHECK-NEXT:    assign.range %r
// CHECK-NEXT:    assign.accum %a[o] := neg(%r[o]) over (o = 3)
// CHECK-NEXT:  }
texpr.routine @range {
  %r = texpr.range : !texpr.tensor<3, f32>
  %a = texpr.apply = neg(%r) logic "." : !texpr.tensor<3, f32>
  texpr.forward %a
}

// Data that code writes is not constant. Gradients of a tensor are one node.
// CHECK-LABEL: assign.routine @modes {
// CHECK-NEXT:    %x = assign.node "x" constant because "data" : memref<3xf32>
// CHECK-NEXT:    %y = assign.node "y" on_device because "data that code writes" : memref<3xf32>
// CHECK-NEXT:    %h = assign.node "x.grad" on_device because "gradient" : memref<3xf32>
// CHECK-NEXT:    assign.accum %y[o] = %x[o] over (o = 3)
// CHECK-NEXT:    assign.accum %h[o] = %h[o] over (o = 3)
// CHECK-NEXT:  }
texpr.routine @modes {
  %x = texpr.data "x" : !texpr.tensor<3, f32>
  %y = texpr.data "y" : !texpr.tensor<3, f32>
  %g = texpr.grad %x : !texpr.tensor<3, f32>
  %h = texpr.grad %x : !texpr.tensor<3, f32>
  texpr.assign %y = %x logic "."
  texpr.assign %g = %h logic "."
}

// Labels are different, and static indices no variables.
// CHECK-LABEL: assign.routine @names indices (i0 = 3) {
// CHECK-NEXT:    %x = assign.node "n" constant because "data" : memref<3xf32>
// CHECK-NEXT:    %0 = assign.node "n_1" local because "intermediate value" : memref<3xf32>
// CHECK-NEXT:    %1 = assign.node "n_2" on_device because "computed by forward" : memref<3xf32>
// CHECK-NEXT:    %c = assign.node "c" on_device because "computed by forward" : memref<3xf32>
// CHECK-NEXT:    assign.accum %0[o] := exp(%x[o]) over (o = 3)
// CHECK-NEXT:    assign.accum %1[o] := exp(%0[o]) over (o = 3)
// CHECK-NEXT:    assign.accum %c[i] := 0.5 over (i = 3)
// CHECK-NEXT:  }
texpr.routine @names indices (i0 = 3) {
  %x = texpr.data "n" : !texpr.tensor<3, f32>
  %0 = texpr.apply = exp(%x) logic "." : !texpr.tensor<3, f32>
  %1 = texpr.apply = exp(%0) logic "." : !texpr.tensor<3, f32>
  %c = texpr.constant 0.5 : !texpr.tensor<3, f32>
  texpr.forward %1
  texpr.forward %c
}

// Accumulations, resets, and reads of one place.
// CHECK-LABEL: assign.routine @accumulations {
// CHECK-NEXT:    %x = assign.node "x" constant because "data" : memref<3x4xf32>
// CHECK-NEXT:    %n = assign.node "n" on_device because "node" : memref<4x2xf32>
// CHECK-NEXT:    %m = assign.node "m" on_device because "computed by forward" : memref<3xf32>
// CHECK-NEXT:    assign.accum %m[a] :max= mul(%x[a, b], %x[a, b]) over (a = 3, b = 4)
// CHECK-NEXT:    assign.accum %n[b, 0] :add= %x[a, b] over (b = 4, a = 3)
// CHECK-NEXT:  }
texpr.routine @accumulations {
  %x = texpr.data "x" : !texpr.tensor<3, 4, f32>
  %m = texpr.apply max= mul(%x, %x) logic "a b; a b => a" : !texpr.tensor<3, f32>
  %n = texpr.node "n" : !texpr.tensor<4, 2, f32>
  texpr.forward %m
  texpr.assign %n :add= %x logic "a b => b 0"
}

// Random numbers: a counter that is a number or static indices is exact, another is computed before.
// CHECK-LABEL: assign.routine @random indices (step_n) {
// CHECK-NEXT:    %n = assign.node "n" on_device because "node" : memref<f32>
// CHECK-NEXT:    %u = assign.node "u" on_device because "computed by forward" : memref<3x4xf32>
// CHECK-NEXT:    %v = assign.node "v" on_device because "computed by forward" : memref<3xf64>
// CHECK-NEXT:    %next = assign.node "next" local because "intermediate value" : memref<f32>
// CHECK-NEXT:    %w = assign.node "w" on_device because "computed by forward" : memref<4xf32>
// CHECK-NEXT:    %0 = assign.embed 2*step_n + 1 : i64
// CHECK-NEXT:    %1 = assign.embed 7 : i64
// CHECK-NEXT:    assign.uniform %u "u#1" at %0
// CHECK-NEXT:    assign.uniform %v "v" second at %1
// CHECK-NEXT:    assign.accum %next[] := add(%n[], 1.0) over ()
// CHECK-NEXT:    assign.uniform %w "w" at %next
// CHECK-NEXT:  }
texpr.routine @random indices (step_n) {
  %step = texpr.embed 2*step_n + 1 : !texpr.tensor<f32>
  %u = texpr.uniform "u#1" at %step : !texpr.tensor<3 | 4, f32>
  %seven = texpr.constant 7.0 : !texpr.tensor<f32>
  %v = texpr.uniform "v" second at %seven : !texpr.tensor<3, f64>
  %n = texpr.node "n" : !texpr.tensor<f32>
  %one = texpr.constant 1.0 : !texpr.tensor<f32>
  %next = texpr.apply = add(%n, %one) logic "." : !texpr.tensor<f32>
  %w = texpr.uniform "w" at %next : !texpr.tensor<4, f32>
  texpr.forward %u
  texpr.forward %v
  texpr.forward %w
}

// A kept value holds whatever is written; what is computed from it is computed from the kept value.
// CHECK-LABEL: assign.routine @holds {
// CHECK:         assign.accum %a[o] := exp(%w[o]) over (o = 3)
// CHECK-NEXT:    assign.accum %b[o] := mul(%w[o], %w[o]) over (o = 3)
// CHECK-NEXT:    assign.accum %w[o] = %b[o] over (o = 3)
// CHECK-NEXT:    assign.accum %b[o] := mul(%w[o], %w[o]) over (o = 3)
// CHECK-NEXT:    assign.accum %c[o] := add(%a[o], %b[o]) over (o = 3)
// CHECK-NEXT:    assign.accum %n[o] = %c[o] over (o = 3)
// CHECK-NEXT:    assign.accum %n[o] = %a[o] over (o = 3)
// CHECK-NEXT:  }
texpr.routine @holds {
  %w = texpr.param "w" : !texpr.tensor<3, f32>
  %n = texpr.node "n" : !texpr.tensor<3, f32>
  %a = texpr.apply = exp(%w) logic "." : !texpr.tensor<3, f32>
  %b = texpr.apply = mul(%w, %w) logic "." : !texpr.tensor<3, f32>
  %c = texpr.apply = add(%a, %b) logic "." : !texpr.tensor<3, f32>
  texpr.forward %a keep
  texpr.assign %w = %b logic "."
  texpr.assign %n = %c logic "."
  texpr.assign %n = %a logic "."
}

// The number that says a position is read from a node, as ids are.
// CHECK-LABEL: assign.routine @position indices (step_n) {
// CHECK:         assign.accum %step[] := %0[] over ()
// CHECK-NEXT:    assign.accum %one[] := 1.0 over ()
// CHECK-NEXT:    assign.accum %w[at$0] by (%one[]) = %0[] over ()
// CHECK-NEXT:    assign.accum %w[at$0] by (%step[]) = 1.0 over ()
texpr.routine @position indices (step_n) {
  %w = texpr.node "w" : !texpr.tensor<7, f32>
  %one = texpr.constant 1.0 : !texpr.tensor<f32>
  %step = texpr.embed step_n : !texpr.tensor<f32>
  texpr.assign %w at [... | ... -> <0>, ...] by (%one) = %step logic "."
  texpr.assign %w at [... | ... -> <0>, ...] by (%step) = %one logic "."
}
