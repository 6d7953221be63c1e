// RUN: ocannl-opt %s | ocannl-opt | filecheck %s
// RUN: ocannl-opt %s --print-op-generic | ocannl-opt | filecheck %s

// Leaves.
// CHECK-LABEL: texpr.routine @leaves indices (step_n, batch_n = 80) {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<80, 10 | 2, f32>
// CHECK-NEXT:    %f = texpr.data "f" flat 12 : !texpr.tensor<...b0 | 3, f32>
// CHECK-NEXT:    %w = texpr.param "a name" : !texpr.tensor<...i0 -> 16>
// CHECK-NEXT:    %n = texpr.node "n.best" : !texpr.tensor<...b0 | ...i1 -> ...o2>
// CHECK-NEXT:    %c = texpr.constant 0.5 : !texpr.tensor<>
// CHECK-NEXT:    %z = texpr.size ?d7 : !texpr.tensor<>
// CHECK-NEXT:    %z5 = texpr.size 5:rgb : !texpr.tensor<f64>
// CHECK-NEXT:    %r = texpr.range : !texpr.tensor<5, f32>
// CHECK-NEXT:    %e = texpr.embed -batch_n + 2*step_n + 1 : !texpr.tensor<f32>
// CHECK-NEXT:    %u = texpr.uniform "u#1" at %e : !texpr.tensor<...b3 | 5>
// CHECK-NEXT:    %v = texpr.uniform "a \22key\22" second at %c like %w : !texpr.tensor<...i0 -> 16, f64>
// CHECK-NEXT:  }
texpr.routine @leaves indices (step_n, batch_n = 80) {
  %x = texpr.data "x" : !texpr.tensor<80, 10 | 2, f32>
  %f = texpr.data "f" flat 12 : !texpr.tensor<...b0 | 3, f32>
  %w = texpr.param "a name" : !texpr.tensor<...i0 -> 16>
  %n = texpr.node "n.best" : !texpr.tensor<...b0 | ...i1 -> ...o2>
  %c = texpr.constant 0.5 : !texpr.tensor<>
  %z = texpr.size ?d7 : !texpr.tensor<>
  %z5 = texpr.size 5:rgb : !texpr.tensor<f64>
  %r = texpr.range : !texpr.tensor<5, f32>
  %e = texpr.embed -batch_n + 2*step_n + 1 : !texpr.tensor<f32>
  %u = texpr.uniform "u#1" at %e : !texpr.tensor<...b3 | 5>
  %v = texpr.uniform "a \22key\22" second at %c like %w : !texpr.tensor<...i0 -> 16, f64>
}

// Expressions as they are built.
// CHECK-LABEL: texpr.routine @as_built indices (batch_n = 80) {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<80, 10 | 2, f32>
// CHECK-NEXT:    %w = texpr.param "w" : !texpr.tensor<...i0 -> ...o1>
// CHECK-NEXT:    %s = texpr.slice %x at batch_n : !texpr.tensor<...b2 | 2, f32>
// CHECK-NEXT:    %first = texpr.slice %x at 0 : !texpr.tensor<...b3 | 2, f32>
// CHECK-NEXT:    %h = texpr.apply add= mul(%w, %s) logic "@" : !texpr.tensor<...b4 | ...i5 -> ...o6>
// CHECK-NEXT:    %square = texpr.apply = mul(%h, %h) logic "." : !texpr.tensor<...b7 | ...i8 -> ...o9>
// CHECK-NEXT:    %t = texpr.apply = %h logic "T" : !texpr.tensor<...b10 | ...i11 -> ...o12>
// CHECK-NEXT:    %m = texpr.apply max= %t logic "... | ... -> a, b => a" dims <a = 3, b = ?d7, c = 4:rgb, input = ?d8> : !texpr.tensor<3>
// CHECK-NEXT:    %k = texpr.apply = where(lt(%h, 0.0), neg(%h), fma(%h, 2.0, -1.0)) logic "." stop : !texpr.tensor<...o13>
// CHECK-NEXT:    %one = texpr.apply = 1.0 logic "." : !texpr.tensor<...o14>
// CHECK-NEXT:    %rate = texpr.data "rate" : !texpr.tensor<f64>
// CHECK-NEXT:    %number = texpr.apply = %rate logic "." literal : !texpr.tensor<>
// CHECK-NEXT:    %late = texpr.apply = %k logic "." again : !texpr.tensor<...o15>
// CHECK-NEXT:  }
texpr.routine @as_built indices (batch_n = 80) {
  %x = texpr.data "x" : !texpr.tensor<80, 10 | 2, f32>
  %w = texpr.param "w" : !texpr.tensor<...i0 -> ...o1>
  %s = texpr.slice %x at batch_n : !texpr.tensor<...b2 | 2, f32>
  %first = texpr.slice %x at 0 : !texpr.tensor<...b3 | 2, f32>
  %h = texpr.apply add= mul(%w, %s) logic "@" : !texpr.tensor<...b4 | ...i5 -> ...o6>
  %square = texpr.apply = mul(%h, %h) logic "." : !texpr.tensor<...b7 | ...i8 -> ...o9>
  %t = texpr.apply = %h logic "T" : !texpr.tensor<...b10 | ...i11 -> ...o12>
  %m = texpr.apply max= %t logic "... | ... -> a, b => a" dims <a = 3, b = ?d7, c = 4:rgb, input = ?d8> : !texpr.tensor<3>
  %k = texpr.apply = where(lt(%h, 0.0), neg(%h), fma(%h, 2.0, -1.0)) logic "." stop : !texpr.tensor<...o13>
  %one = texpr.apply = 1.0 logic "." : !texpr.tensor<...o14>
  %rate = texpr.data "rate" : !texpr.tensor<f64>
  %number = texpr.apply = %rate logic "." literal : !texpr.tensor<>
  %late = texpr.apply = %k logic "." again : !texpr.tensor<...o15>
}

// The same after projection inference.
// CHECK-LABEL: texpr.routine @projected indices (batch_n = 80) {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<80, 10 | 2, f32>
// CHECK-NEXT:    %w = texpr.param "w" : !texpr.tensor<2 -> 16, f32>
// CHECK-NEXT:    %s = texpr.apply [b, o] = %x[batch_n, b, o] over (b = 10, o = 2) : !texpr.tensor<10 | 2, f32>
// CHECK-NEXT:    %h = texpr.apply [b, o] add= mul(%w[o, k], %s[b, k]) over (b = 10, o = 16, k = 2) : !texpr.tensor<10 | 16, f32>
// CHECK-NEXT:    %even = texpr.apply [o] = %h[2*o + 1, -o + 7] over (o = 5) : !texpr.tensor<5, f32>
// CHECK-NEXT:    %sum = texpr.apply [] add= %h[b, o] over (b = 10, o = 16) stop : !texpr.tensor<f32>
// CHECK-NEXT:    %c = texpr.apply [o] = 3.0 over (o = 4) : !texpr.tensor<4, f32>
// CHECK-NEXT:  }
texpr.routine @projected indices (batch_n = 80) {
  %x = texpr.data "x" : !texpr.tensor<80, 10 | 2, f32>
  %w = texpr.param "w" : !texpr.tensor<2 -> 16, f32>
  %s = texpr.apply [b, o] = %x[batch_n, b, o] over (b = 10, o = 2) : !texpr.tensor<10 | 2, f32>
  %h = texpr.apply [b, o] add= mul(%w[o, k], %s[b, k]) over (b = 10, o = 16, k = 2) : !texpr.tensor<10 | 16, f32>
  %even = texpr.apply [o] = %h[2*o + 1, -o + 7] over (o = 5) : !texpr.tensor<5, f32>
  %sum = texpr.apply [] add= %h[b, o] over (b = 10, o = 16) stop : !texpr.tensor<f32>
  %c = texpr.apply [o] = 3.0 over (o = 4) : !texpr.tensor<4, f32>
}

// Code.
// CHECK-LABEL: texpr.routine @code {
// CHECK-NEXT:    texpr.comment "line \22one\22"
// CHECK-NEXT:    %w = texpr.param "w" : !texpr.tensor<16, f32>
// CHECK-NEXT:    %top = texpr.node "top" : !texpr.tensor<f32>
// CHECK-NEXT:    %h = texpr.apply = neg(%w) logic "." : !texpr.tensor<16, f32>
// CHECK-NEXT:    %g = texpr.grad %w : !texpr.tensor<16, f32>
// CHECK-NEXT:    %v = texpr.value %h : !texpr.tensor<16, f32>
// CHECK-NEXT:    %m = texpr.merge "w.grad.merge" of %g from 1 : !texpr.tensor<16, f32>
// CHECK-NEXT:    texpr.forward %h
// CHECK-NEXT:    texpr.zero_grads %h
// CHECK-NEXT:    texpr.backprop %h
// CHECK-NEXT:    texpr.assign %w = %g logic "."
// CHECK-NEXT:    texpr.assign %w add= %g logic "T"
// CHECK-NEXT:    texpr.assign %top :max= %v logic "... => 0"
// CHECK-NEXT:    texpr.assign %w := %v logic "... => ..."
// CHECK-NEXT:    texpr.assign %w[o] = %v[o] over (o = 16)
// CHECK-NEXT:    texpr.assign %top[] :add= %v[-o + 15] over (o = 16)
// CHECK-NEXT:  }
texpr.routine @code {
  texpr.comment "line \22one\22"
  %w = texpr.param "w" : !texpr.tensor<16, f32>
  %top = texpr.node "top" : !texpr.tensor<f32>
  %h = texpr.apply = neg(%w) logic "." : !texpr.tensor<16, f32>
  %g = texpr.grad %w : !texpr.tensor<16, f32>
  %v = texpr.value %h : !texpr.tensor<16, f32>
  %m = texpr.merge "w.grad.merge" of %g from 1 : !texpr.tensor<16, f32>
  texpr.forward %h
  texpr.zero_grads %h
  texpr.backprop %h
  texpr.assign %w = %g logic "."
  texpr.assign %w add= %g logic "T"
  texpr.assign %top :max= %v logic "... => 0"
  texpr.assign %w := %v logic "... => ..."
  texpr.assign %w[o] = %v[o] over (o = 16)
  texpr.assign %top[] :add= %v[-o + 15] over (o = 16)
}

// Attributes of a routine are kept; an empty routine is a routine.
// CHECK-LABEL: texpr.routine @empty indices (i) attributes {note = "kept"} {
// CHECK-NEXT:  }
texpr.routine @empty indices (i) attributes {note = "kept"} {
}

// Derivatives.
// CHECK-LABEL: texpr.routine @derivatives {
// CHECK-NEXT:    %w = texpr.param "w" : !texpr.tensor<16, f32>
// CHECK-NEXT:    %v = texpr.param "v" : !texpr.tensor<...o0>
// CHECK-NEXT:    %y = texpr.apply = mul(%w, %v) logic "." : !texpr.tensor<...o1>
// CHECK-NEXT:    %gw = texpr.vjp %y wrt %w from %v : !texpr.tensor<16, f32>
// CHECK-NEXT:    %gv = texpr.vjp %gw wrt %v : !texpr.tensor<...o0>
// CHECK-NEXT:    %t = texpr.jvp %y wrt (%w = %v, %v = %gv) : !texpr.tensor<...o1>
// CHECK-NEXT:    %ct = texpr.adjoint %y : !texpr.tensor<...o1>
// CHECK-NEXT:    %z = texpr.custom %y adjoint %ct pullback (%w = %ct, %v = %t) : !texpr.tensor<...o1>
// CHECK-NEXT:    %none = texpr.custom %y adjoint %ct pullback () : !texpr.tensor<...o1>
// CHECK-NEXT:  }
texpr.routine @derivatives {
  %w = texpr.param "w" : !texpr.tensor<16, f32>
  %v = texpr.param "v" : !texpr.tensor<...o0>
  %y = texpr.apply = mul(%w, %v) logic "." : !texpr.tensor<...o1>
  %gw = texpr.vjp %y wrt %w from %v : !texpr.tensor<16, f32>
  %gv = texpr.vjp %gw wrt %v : !texpr.tensor<...o0>
  %t = texpr.jvp %y wrt (%w = %v, %v = %gv) : !texpr.tensor<...o1>
  %ct = texpr.adjoint %y : !texpr.tensor<...o1>
  %z = texpr.custom %y adjoint %ct pullback (%w = %ct, %v = %t) : !texpr.tensor<...o1>
  %none = texpr.custom %y adjoint %ct pullback () : !texpr.tensor<...o1>
}
