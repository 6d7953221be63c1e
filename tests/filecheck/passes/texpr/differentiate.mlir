// RUN: ocannl-opt %s -p infer-projections,differentiate | filecheck %s

// The adjoint of a product: the maps change their roles. Data has no gradient.
// CHECK-LABEL: texpr.routine @compose {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<10 | 2, f32>
// CHECK-NEXT:    %w = texpr.param "w" : !texpr.tensor<2 -> 16, f32>
// CHECK-NEXT:    %h = texpr.apply [b, o] add= mul(%w[o, k], %x[b, k]) over (b = 10, o = 16, k = 2) : !texpr.tensor<10 | 16, f32>
// CHECK-NEXT:    %h_grad = texpr.grad %h : !texpr.tensor<10 | 16, f32>
// CHECK-NEXT:    %w_grad = texpr.apply [o, k] add= mul(%h_grad[b, o], %x[b, k]) over (b = 10, o = 16, k = 2) : !texpr.tensor<2 -> 16, f32>
// CHECK-NEXT:    %w_grad_1 = texpr.grad %w : !texpr.tensor<2 -> 16, f32>
// CHECK-NEXT:    texpr.assign %w_grad_1[o, i] add= %w_grad[o, i] over (o = 16, i = 2)
// CHECK-NEXT:  }
texpr.routine @compose {
  %x = texpr.data "x" : !texpr.tensor<10 | 2, f32>
  %w = texpr.param "w" : !texpr.tensor<2 -> 16, f32>
  %h = texpr.apply add= mul(%w, %x) logic "@" : !texpr.tensor<10 | 16, f32>
  texpr.backprop %h
}

// A gradient of more bits than its parameter is computed in these.
// CHECK-LABEL: texpr.routine @wider {
// CHECK:         %w_grad = texpr.apply [o, k] add= mul(%h_grad[b, o], %x[b, k]) over (b = 10, o = 16, k = 2) : !texpr.tensor<2 -> 16, f32>
// CHECK-NEXT:    texpr.assign %g[o, i] add= %w_grad[o, i] over (o = 16, i = 2)
texpr.routine @wider {
  %x = texpr.data "x" : !texpr.tensor<10 | 2, bf16>
  %w = texpr.param "w" : !texpr.tensor<2 -> 16, bf16>
  %g = texpr.grad %w : !texpr.tensor<2 -> 16, f32>
  %h = texpr.apply add= mul(%w, %x) logic "@" : !texpr.tensor<10 | 16, bf16>
  texpr.backprop %h
}

// What was broadcast is summed.
// CHECK-LABEL: texpr.routine @broadcast {
// CHECK-NEXT:    %x = texpr.param "x" : !texpr.tensor<10 | 16, f32>
// CHECK-NEXT:    %b = texpr.param "b" : !texpr.tensor<1, f32>
// CHECK-NEXT:    %h = texpr.apply [b, o] = mul(%x[b, o], %b[0]) over (b = 10, o = 16) : !texpr.tensor<10 | 16, f32>
// CHECK-NEXT:    %h_grad = texpr.grad %h : !texpr.tensor<10 | 16, f32>
// CHECK-NEXT:    %x_grad = texpr.apply [b, o] = mul(%h_grad[b, o], %b[0]) over (b = 10, o = 16) : !texpr.tensor<10 | 16, f32>
// CHECK-NEXT:    %b_grad = texpr.apply [0] add= mul(%h_grad[b, o], %x[b, o]) over (b = 10, o = 16) : !texpr.tensor<1, f32>
// CHECK-NEXT:    %x_grad_1 = texpr.grad %x : !texpr.tensor<10 | 16, f32>
// CHECK-NEXT:    texpr.assign %x_grad_1[b, o] add= %x_grad[b, o] over (b = 10, o = 16)
// CHECK-NEXT:    %b_grad_1 = texpr.grad %b : !texpr.tensor<1, f32>
// CHECK-NEXT:    texpr.assign %b_grad_1[0] add= %b_grad[0] over ()
// CHECK-NEXT:  }
texpr.routine @broadcast {
  %x = texpr.param "x" : !texpr.tensor<10 | 16, f32>
  %b = texpr.param "b" : !texpr.tensor<1, f32>
  %h = texpr.apply = mul(%x, %b) logic "." : !texpr.tensor<10 | 16, f32>
  texpr.backprop %h
}

// The forward value stands for itself in the derivative.
// CHECK-LABEL: texpr.routine @unary {
// CHECK-NEXT:    %x = texpr.param "x" : !texpr.tensor<4, f32>
// CHECK-NEXT:    %e = texpr.apply [o] = exp(%x[o]) over (o = 4) : !texpr.tensor<4, f32>
// CHECK-NEXT:    %r = texpr.apply [o] = relu(%e[o]) over (o = 4) : !texpr.tensor<4, f32>
// CHECK-NEXT:    %r_grad = texpr.grad %r : !texpr.tensor<4, f32>
// CHECK-NEXT:    %e_grad = texpr.apply [o] = relu_gate(%r[o], %r_grad[o]) over (o = 4) : !texpr.tensor<4, f32>
// CHECK-NEXT:    %x_grad = texpr.apply [o] = mul(%e_grad[o], %e[o]) over (o = 4) : !texpr.tensor<4, f32>
// CHECK-NEXT:    %x_grad_1 = texpr.grad %x : !texpr.tensor<4, f32>
// CHECK-NEXT:    texpr.assign %x_grad_1[o] add= %x_grad[o] over (o = 4)
// CHECK-NEXT:  }
texpr.routine @unary {
  %x = texpr.param "x" : !texpr.tensor<4, f32>
  %e = texpr.apply = exp(%x) logic "." : !texpr.tensor<4, f32>
  %r = texpr.apply = relu(%e) logic "." : !texpr.tensor<4, f32>
  texpr.backprop %r
}

// CHECK-LABEL: texpr.routine @transpose {
// CHECK-NEXT:    %x = texpr.param "x" : !texpr.tensor<10 | 2 -> 3, f32>
// CHECK-NEXT:    %t = texpr.apply [b, o, i] = %x[b, i, o] over (b = 10, o = 2, i = 3) : !texpr.tensor<10 | 3 -> 2, f32>
// CHECK-NEXT:    %t_grad = texpr.grad %t : !texpr.tensor<10 | 3 -> 2, f32>
// CHECK-NEXT:    %x_grad = texpr.apply [b, i, o] = %t_grad[b, o, i] over (b = 10, o = 2, i = 3) : !texpr.tensor<10 | 2 -> 3, f32>
// CHECK-NEXT:    %x_grad_1 = texpr.grad %x : !texpr.tensor<10 | 2 -> 3, f32>
// CHECK-NEXT:    texpr.assign %x_grad_1[b, o, i] add= %x_grad[b, o, i] over (b = 10, o = 3, i = 2)
// CHECK-NEXT:  }
texpr.routine @transpose {
  %x = texpr.param "x" : !texpr.tensor<10 | 2 -> 3, f32>
  %t = texpr.apply = %x logic "T" : !texpr.tensor<10 | 3 -> 2, f32>
  texpr.backprop %t
}

// CHECK-LABEL: texpr.routine @slice indices (n = 80) {
// CHECK-NEXT:    %x = texpr.param "x" : !texpr.tensor<80 | 2, f32>
// CHECK-NEXT:    %s = texpr.apply [o] = %x[n, o] over (o = 2) : !texpr.tensor<2, f32>
// CHECK-NEXT:    %s_grad = texpr.grad %s : !texpr.tensor<2, f32>
// CHECK-NEXT:    %x_grad = texpr.apply [n, o] add= %s_grad[o] over (o = 2) : !texpr.tensor<80 | 2, f32>
// CHECK-NEXT:    %x_grad_1 = texpr.grad %x : !texpr.tensor<80 | 2, f32>
// CHECK-NEXT:    texpr.assign %x_grad_1[b, o] add= %x_grad[b, o] over (b = 80, o = 2)
// CHECK-NEXT:  }
texpr.routine @slice indices (n = 80) {
  %x = texpr.param "x" : !texpr.tensor<80 | 2, f32>
  %s = texpr.slice %x at n : !texpr.tensor<2, f32>
  texpr.backprop %s
}

// CHECK-LABEL: texpr.routine @spec {
// CHECK-NEXT:    %x = texpr.param "x" : !texpr.tensor<4, 4, 7, f32>
// CHECK-NEXT:    %d = texpr.apply [a] = %x[a, a, 5] over (a = 4) : !texpr.tensor<4, f32>
// CHECK-NEXT:    %d_grad = texpr.grad %d : !texpr.tensor<4, f32>
// CHECK-NEXT:    %x_grad = texpr.apply [a, a, 5] add= %d_grad[a] over (a = 4) : !texpr.tensor<4, 4, 7, f32>
// CHECK-NEXT:    %x_grad_1 = texpr.grad %x : !texpr.tensor<4, 4, 7, f32>
// CHECK-NEXT:    texpr.assign %x_grad_1[o, o1, o2] add= %x_grad[o, o1, o2] over (o = 4, o1 = 4, o2 = 7)
// CHECK-NEXT:  }
texpr.routine @spec {
  %x = texpr.param "x" : !texpr.tensor<4, 4, 7, f32>
  %d = texpr.apply add= %x logic "a a 5 => a" : !texpr.tensor<4, f32>
  texpr.backprop %d
}

// A sum to one number, and a maximum: every point that attains it has the gradient.
// CHECK-LABEL: texpr.routine @reductions {
// CHECK-NEXT:    %x = texpr.param "x" : !texpr.tensor<10 | 3, f32>
// CHECK-NEXT:    %m = texpr.apply [b] max= %x[b, a] over (b = 10, a = 3) : !texpr.tensor<10 | f32>
// CHECK-NEXT:    %s = texpr.apply [0] add= %m[b] over (b = 10) : !texpr.tensor<1, f32>
// CHECK-NEXT:    %s_grad = texpr.grad %s : !texpr.tensor<1, f32>
// CHECK-NEXT:    %m_grad = texpr.apply [b] = %s_grad[0] over (b = 10) : !texpr.tensor<10 | f32>
// CHECK-NEXT:    %x_grad = texpr.apply [b, a] = where(eq(%m[b], %x[b, a]), %m_grad[b], 0.0) over (b = 10, a = 3) : !texpr.tensor<10 | 3, f32>
// CHECK-NEXT:    %x_grad_1 = texpr.grad %x : !texpr.tensor<10 | 3, f32>
// CHECK-NEXT:    texpr.assign %x_grad_1[b, o] add= %x_grad[b, o] over (b = 10, o = 3)
// CHECK-NEXT:  }
texpr.routine @reductions {
  %x = texpr.param "x" : !texpr.tensor<10 | 3, f32>
  %m = texpr.apply max= %x logic "b | a => b |" : !texpr.tensor<10 | f32>
  %s = texpr.apply add= %m logic "... | => 0" : !texpr.tensor<1, f32>
  texpr.backprop %s
}

// CHECK-LABEL: texpr.routine @minimum_of_sums {
// CHECK-NEXT:    %x = texpr.param "x" : !texpr.tensor<3, f32>
// CHECK-NEXT:    %y = texpr.param "y" : !texpr.tensor<4, f32>
// CHECK-NEXT:    %m = texpr.apply [a] min= add(%x[a], %y[b]) over (a = 3, b = 4) : !texpr.tensor<3, f32>
// CHECK-NEXT:    %m_grad = texpr.grad %m : !texpr.tensor<3, f32>
// CHECK-NEXT:    %x_grad = texpr.apply [a] add= where(eq(%m[a], add(%x[a], %y[b])), %m_grad[a], 0.0) over (a = 3, b = 4) : !texpr.tensor<3, f32>
// CHECK-NEXT:    %y_grad = texpr.apply [b] add= where(eq(%m[a], add(%x[a], %y[b])), %m_grad[a], 0.0) over (a = 3, b = 4) : !texpr.tensor<4, f32>
// CHECK-NEXT:    %x_grad_1 = texpr.grad %x : !texpr.tensor<3, f32>
// CHECK-NEXT:    texpr.assign %x_grad_1[o] add= %x_grad[o] over (o = 3)
// CHECK-NEXT:    %y_grad_1 = texpr.grad %y : !texpr.tensor<4, f32>
// CHECK-NEXT:    texpr.assign %y_grad_1[o] add= %y_grad[o] over (o = 4)
// CHECK-NEXT:  }
texpr.routine @minimum_of_sums {
  %x = texpr.param "x" : !texpr.tensor<3, f32>
  %y = texpr.param "y" : !texpr.tensor<4, f32>
  %m = texpr.apply min= add(%x, %y) logic "a; b => a" : !texpr.tensor<3, f32>
  texpr.backprop %m
}

// A second use adds; two slots of one tensor are two uses.
// CHECK-LABEL: texpr.routine @uses {
// CHECK-NEXT:    %x = texpr.param "x" : !texpr.tensor<3, f32>
// CHECK-NEXT:    %e = texpr.apply [o] = exp(%x[o]) over (o = 3) : !texpr.tensor<3, f32>
// CHECK-NEXT:    %p = texpr.apply [o] = mul(%x[o], %e[o]) over (o = 3) : !texpr.tensor<3, f32>
// CHECK-NEXT:    %q = texpr.apply [a, b] = mul(%p[a], %p[b]) over (a = 3, b = 3) : !texpr.tensor<3, 3, f32>
// CHECK-NEXT:    %q_grad = texpr.grad %q : !texpr.tensor<3, 3, f32>
// CHECK-NEXT:    %p_grad = texpr.apply [a] add= mul(%q_grad[a, b], %p[b]) over (a = 3, b = 3) : !texpr.tensor<3, f32>
// CHECK-NEXT:    %p_grad_1 = texpr.apply [b] add= mul(%q_grad[a, b], %p[a]) over (a = 3, b = 3) : !texpr.tensor<3, f32>
// CHECK-NEXT:    %0 = texpr.apply [o] = add(%p_grad[o], %p_grad_1[o]) over (o = 3) : !texpr.tensor<3, f32>
// CHECK-NEXT:    %x_grad = texpr.apply [o] = mul(%0[o], %e[o]) over (o = 3) : !texpr.tensor<3, f32>
// CHECK-NEXT:    %e_grad = texpr.apply [o] = mul(%0[o], %x[o]) over (o = 3) : !texpr.tensor<3, f32>
// CHECK-NEXT:    %x_grad_1 = texpr.apply [o] = mul(%e_grad[o], %e[o]) over (o = 3) : !texpr.tensor<3, f32>
// CHECK-NEXT:    %1 = texpr.apply [o] = add(%x_grad[o], %x_grad_1[o]) over (o = 3) : !texpr.tensor<3, f32>
// CHECK-NEXT:    %x_grad_2 = texpr.grad %x : !texpr.tensor<3, f32>
// CHECK-NEXT:    texpr.assign %x_grad_2[o] add= %1[o] over (o = 3)
// CHECK-NEXT:  }
texpr.routine @uses {
  %x = texpr.param "x" : !texpr.tensor<3, f32>
  %e = texpr.apply = exp(%x) logic "." : !texpr.tensor<3, f32>
  %p = texpr.apply = mul(%x, %e) logic "." : !texpr.tensor<3, f32>
  %q = texpr.apply add= mul(%p, %p) logic "a; b => a b" : !texpr.tensor<3, 3, f32>
  texpr.backprop %q
}

// Nothing goes through `stop`, through comparisons, into numbers or static indices.
// CHECK-LABEL: texpr.routine @stopped indices (n) {
// CHECK-NEXT:    %x = texpr.param "x" : !texpr.tensor<3, f32>
// CHECK-NEXT:    %y = texpr.param "y" : !texpr.tensor<3, f32>
// CHECK-NEXT:    %z = texpr.param "z" : !texpr.tensor<3, f32>
// CHECK-NEXT:    %c = texpr.constant 2.0 : !texpr.tensor<3, f32>
// CHECK-NEXT:    %i = texpr.embed n : !texpr.tensor<3, f32>
// CHECK-NEXT:    %s = texpr.apply [o] = neg(%x[o]) over (o = 3) stop : !texpr.tensor<3, f32>
// CHECK-NEXT:    %l = texpr.apply [o] = lt(%y[o], %c[o]) over (o = 3) : !texpr.tensor<3, f32>
// CHECK-NEXT:    %a = texpr.apply [o] = mul3(%s[o], %l[o], %i[o]) over (o = 3) : !texpr.tensor<3, f32>
// CHECK-NEXT:    %b = texpr.apply [o] = mul(%a[o], %z[o]) over (o = 3) : !texpr.tensor<3, f32>
// CHECK-NEXT:    %b_grad = texpr.grad %b : !texpr.tensor<3, f32>
// CHECK-NEXT:    %a_grad = texpr.apply [o] = mul(%b_grad[o], %z[o]) over (o = 3) : !texpr.tensor<3, f32>
// CHECK-NEXT:    %z_grad = texpr.apply [o] = mul(%b_grad[o], %a[o]) over (o = 3) : !texpr.tensor<3, f32>
// CHECK-NEXT:    %l_grad = texpr.apply [o] = mul(%a_grad[o], mul(%s[o], %i[o])) over (o = 3) : !texpr.tensor<3, f32>
// CHECK-NEXT:    %z_grad_1 = texpr.grad %z : !texpr.tensor<3, f32>
// CHECK-NEXT:    texpr.assign %z_grad_1[o] add= %z_grad[o] over (o = 3)
// CHECK-NEXT:  }
texpr.routine @stopped indices (n) {
  %x = texpr.param "x" : !texpr.tensor<3, f32>
  %y = texpr.param "y" : !texpr.tensor<3, f32>
  %z = texpr.param "z" : !texpr.tensor<3, f32>
  %c = texpr.constant 2.0 : !texpr.tensor<3, f32>
  %i = texpr.embed n : !texpr.tensor<3, f32>
  %s = texpr.apply = neg(%x) logic "." stop : !texpr.tensor<3, f32>
  %l = texpr.apply = lt(%y, %c) logic "." : !texpr.tensor<3, f32>
  %a = texpr.apply = mul3(%s, %l, %i) logic "." : !texpr.tensor<3, f32>
  %b = texpr.apply = mul(%a, %z) logic "." : !texpr.tensor<3, f32>
  texpr.backprop %b
}

// Gradients are set to zero where they are kept: of parameters, of what is asked for, and of the tensor itself.
// CHECK-LABEL: texpr.routine @zero_grads {
// CHECK-NEXT:    %w = texpr.param "w" : !texpr.tensor<3, f32>
// CHECK-NEXT:    %h = texpr.apply [o] = exp(%w[o]) over (o = 3) : !texpr.tensor<3, f32>
// CHECK-NEXT:    %y = texpr.apply [o] = neg(%h[o]) over (o = 3) : !texpr.tensor<3, f32>
// CHECK-NEXT:    %g = texpr.grad %h : !texpr.tensor<3, f32>
// CHECK-NEXT:    %top = texpr.grad %y : !texpr.tensor<3, f32>
// CHECK-NEXT:    %w_grad = texpr.grad %w : !texpr.tensor<3, f32>
// CHECK-NEXT:    %0 = texpr.constant 0.0 : !texpr.tensor<3, f32>
// CHECK-NEXT:    texpr.assign %w_grad[o] = %0[o] over (o = 3)
// CHECK-NEXT:    %1 = texpr.constant 0.0 : !texpr.tensor<3, f32>
// CHECK-NEXT:    texpr.assign %g[o] = %1[o] over (o = 3)
// CHECK-NEXT:    %2 = texpr.constant 0.0 : !texpr.tensor<3, f32>
// CHECK-NEXT:    texpr.assign %top[o] = %2[o] over (o = 3)
// CHECK-NEXT:  }
texpr.routine @zero_grads {
  %w = texpr.param "w" : !texpr.tensor<3, f32>
  %h = texpr.apply = exp(%w) logic "." : !texpr.tensor<3, f32>
  %y = texpr.apply = neg(%h) logic "." : !texpr.tensor<3, f32>
  %g = texpr.grad %h : !texpr.tensor<3, f32>
  %top = texpr.grad %y : !texpr.tensor<3, f32>
  texpr.zero_grads %y
}

// An intermediate gradient that is asked for is kept on the way.
// CHECK-LABEL: texpr.routine @intermediate {
// CHECK-NEXT:    %w = texpr.param "w" : !texpr.tensor<3, f32>
// CHECK-NEXT:    %h = texpr.apply [o] = exp(%w[o]) over (o = 3) : !texpr.tensor<3, f32>
// CHECK-NEXT:    %y = texpr.apply [o] = neg(%h[o]) over (o = 3) : !texpr.tensor<3, f32>
// CHECK-NEXT:    %g = texpr.grad %h : !texpr.tensor<3, f32>
// CHECK-NEXT:    %y_grad = texpr.grad %y : !texpr.tensor<3, f32>
// CHECK-NEXT:    %h_grad = texpr.apply [o] = neg(%y_grad[o]) over (o = 3) : !texpr.tensor<3, f32>
// CHECK-NEXT:    texpr.assign %g[o] add= %h_grad[o] over (o = 3)
// CHECK-NEXT:    %w_grad = texpr.apply [o] = mul(%h_grad[o], %h[o]) over (o = 3) : !texpr.tensor<3, f32>
// CHECK-NEXT:    %w_grad_1 = texpr.grad %w : !texpr.tensor<3, f32>
// CHECK-NEXT:    texpr.assign %w_grad_1[o] add= %w_grad[o] over (o = 3)
// CHECK-NEXT:  }
texpr.routine @intermediate {
  %w = texpr.param "w" : !texpr.tensor<3, f32>
  %h = texpr.apply = exp(%w) logic "." : !texpr.tensor<3, f32>
  %y = texpr.apply = neg(%h) logic "." : !texpr.tensor<3, f32>
  %g = texpr.grad %h : !texpr.tensor<3, f32>
  texpr.backprop %y
}

// The gradient of integers, if asked for, is f32.
// CHECK-LABEL: texpr.routine @integers {
// CHECK-NEXT:    %i = texpr.data "i" : !texpr.tensor<3, i32>
// CHECK-NEXT:    %g = texpr.grad %i : !texpr.tensor<3, f32>
// CHECK-NEXT:    %y = texpr.apply [o] = mul(%i[o], 2.0) over (o = 3) : !texpr.tensor<3, f64>
// CHECK-NEXT:    %y_grad = texpr.grad %y : !texpr.tensor<3, f64>
// CHECK-NEXT:    %i_grad = texpr.apply [o] = mul(%y_grad[o], 2.0) over (o = 3) : !texpr.tensor<3, f32>
// CHECK-NEXT:    texpr.assign %g[o] add= %i_grad[o] over (o = 3)
// CHECK-NEXT:  }
texpr.routine @integers {
  %i = texpr.data "i" : !texpr.tensor<3, i32>
  %g = texpr.grad %i : !texpr.tensor<3, f32>
  %y = texpr.apply = mul(%i, 2.0) logic "." : !texpr.tensor<3, f64>
  texpr.backprop %y
}

// Two sweeps in one routine.
// CHECK-LABEL: texpr.routine @twice {
// CHECK-NEXT:    %w = texpr.param "w" : !texpr.tensor<3, f32>
// CHECK-NEXT:    %y = texpr.apply [o] = neg(%w[o]) over (o = 3) : !texpr.tensor<3, f32>
// CHECK-NEXT:    %y_grad = texpr.grad %y : !texpr.tensor<3, f32>
// CHECK-NEXT:    %w_grad = texpr.apply [o] = neg(%y_grad[o]) over (o = 3) : !texpr.tensor<3, f32>
// CHECK-NEXT:    %w_grad_1 = texpr.grad %w : !texpr.tensor<3, f32>
// CHECK-NEXT:    texpr.assign %w_grad_1[o] add= %w_grad[o] over (o = 3)
// CHECK-NEXT:    %w_grad_2 = texpr.apply [o] = neg(%y_grad[o]) over (o = 3) : !texpr.tensor<3, f32>
// CHECK-NEXT:    texpr.assign %w_grad_1[o] add= %w_grad_2[o] over (o = 3)
// CHECK-NEXT:  }
texpr.routine @twice {
  %w = texpr.param "w" : !texpr.tensor<3, f32>
  %y = texpr.apply = neg(%w) logic "." : !texpr.tensor<3, f32>
  texpr.backprop %y
  texpr.backprop %y
}

// A gradient that is declared after its first use is there from the start.
// CHECK-LABEL: texpr.routine @declared_later {
// CHECK-NEXT:    %w = texpr.param "w" : !texpr.tensor<3, f32>
// CHECK-NEXT:    %g = texpr.grad %w : !texpr.tensor<3, f32>
// CHECK-NEXT:    %y = texpr.apply [o] = neg(%w[o]) over (o = 3) : !texpr.tensor<3, f32>
// CHECK-NEXT:    %y_grad = texpr.grad %y : !texpr.tensor<3, f32>
// CHECK-NEXT:    %w_grad = texpr.apply [o] = neg(%y_grad[o]) over (o = 3) : !texpr.tensor<3, f32>
// CHECK-NEXT:    texpr.assign %g[o] add= %w_grad[o] over (o = 3)
// CHECK-NEXT:    texpr.assign %w[o] add= %g[o] over (o = 3)
// CHECK-NEXT:  }
texpr.routine @declared_later {
  %w = texpr.param "w" : !texpr.tensor<3, f32>
  %y = texpr.apply = neg(%w) logic "." : !texpr.tensor<3, f32>
  texpr.backprop %y
  %g = texpr.grad %w : !texpr.tensor<3, f32>
  texpr.assign %w add= %g logic "."
}

// The gradients of slices are boxes of one array: none of them is filled up with zeros and added.
// CHECK-LABEL: texpr.routine @boxes {
// CHECK:         %w_grad = texpr.apply [o + 1, i] = mul(%b_grad[o, i], cos(%w[o + 1, i])) over (o = 3, i = 2) then [0, i] = %a_grad[i] over (i = 2) : !texpr.tensor<2 -> 4, f32>
// CHECK-NEXT:    %w_grad_1 = texpr.grad %w
// CHECK-NEXT:    texpr.assign %w_grad_1[o, i] add= %w_grad[o, i] over (o = 4, i = 2)
texpr.routine @boxes {
  %w = texpr.param "w" : !texpr.tensor<2 -> 4, f32>
  %a = texpr.apply [i] = %w[0, i] over (i = 2) : !texpr.tensor<2, f32>
  %b = texpr.apply [o, i] = sin(%w[o + 1, i]) over (o = 3, i = 2) : !texpr.tensor<3, 2, f32>
  %l = texpr.apply [i] add= mul(%a[i], %b[o, i]) over (o = 3, i = 2) : !texpr.tensor<2, f32>
  texpr.backprop %l
}

// Where they leave cells out, or meet, they are accumulated.
// CHECK-LABEL: texpr.routine @boxes_that_meet {
// CHECK:         %w_grad = texpr.apply [i + 1] add= %b_grad[i] over (i = 2) then [i] add= %a_grad[i] over (i = 2) : !texpr.tensor<4, f32>
texpr.routine @boxes_that_meet {
  %w = texpr.param "w" : !texpr.tensor<4, f32>
  %a = texpr.apply [i] = %w[i] over (i = 2) : !texpr.tensor<2, f32>
  %b = texpr.apply [i] = %w[i + 1] over (i = 2) : !texpr.tensor<2, f32>
  %l = texpr.apply [i] = mul(%a[i], %b[i]) over (i = 2) : !texpr.tensor<2, f32>
  texpr.backprop %l
}

// An adjoint is split over a mesh as its value; one that is asked to be whole may stay a sum.
// CHECK-LABEL: texpr.routine @placed mesh (data = 2) {
// CHECK:         %y_grad = texpr.apply [b, o] = mul(%s_grad[], add(%y[b, o], %y[b, o])) over (b = 10, o = 16) : !texpr.tensor<10 | 16, f32>
// CHECK-NEXT:    %h_grad = texpr.apply [b, o] = mul(%y_grad[b, o], %y[b, o]) over (b = 10, o = 16) shard <"data" = output> : !texpr.tensor<10 | 16, f32>
// CHECK-NEXT:    %x_grad = texpr.apply [b, o] = mul(%h_grad[b, o], %h[b, o]) over (b = 10, o = 16) : !texpr.tensor<10 | 16, f32>
texpr.routine @placed mesh (data = 2) {
  %x = texpr.param "x" : !texpr.tensor<10 | 16, f32>
  %h = texpr.apply [b, o] = exp(%x[b, o]) over (b = 10, o = 16) shard <"data" = output> : !texpr.tensor<10 | 16, f32>
  %y = texpr.apply [b, o] = exp(%h[b, o]) over (b = 10, o = 16) shard <> : !texpr.tensor<10 | 16, f32>
  %s = texpr.apply [] add= mul(%y[b, o], %y[b, o]) over (b = 10, o = 16) : !texpr.tensor<f32>
  texpr.backprop %s
}
