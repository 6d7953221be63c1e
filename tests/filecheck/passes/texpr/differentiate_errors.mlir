// RUN: ocannl-opt %s -p infer-projections,differentiate --split-input-file --verify-diagnostics | filecheck %s

texpr.routine @r {
  %w = texpr.param "w" : !texpr.tensor<3, f32>
  %y = texpr.apply or= %w logic "a =>" : !texpr.tensor<f32>
  texpr.backprop %y
}

// CHECK: {{:[0-9]+:[0-9]+}}: there is no gradient through an accumulation by `or`

// -----

texpr.routine @r {
  %w = texpr.param "w" : !texpr.tensor<3, f32>
  %y = texpr.apply or= %w logic "a =>" : !texpr.tensor<f32>
  %t = texpr.jvp %y wrt (%w = %w) : !texpr.tensor<f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: there is no gradient through an accumulation by `or`

// -----

texpr.routine @r {
  %w = texpr.param "w" : !texpr.tensor<3, f32>
  %y = texpr.apply = neg(%w) logic "." : !texpr.tensor<3, f32>
  %g = texpr.vjp %y wrt %w : !texpr.tensor<3, f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: a gradient is of one number, and this tensor has the shape 3: take its sum, as in (2 * x).sum(), or weight its elements by oc.vjp

// -----

texpr.routine @r {
  %i = texpr.data "i" : !texpr.tensor<3, i32>
  %y = texpr.apply add= %i logic "a =>" : !texpr.tensor<f32>
  %g = texpr.vjp %y wrt %i : !texpr.tensor<3, f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `i` holds integers (i32), which have no derivatives: give its array as floats, array.astype(np.float32)

// -----

texpr.routine @r {
  %w = texpr.param "w" : !texpr.tensor<3, f32>
  %c = texpr.param "c" : !texpr.tensor<4, f32>
  %y = texpr.apply = neg(%w) logic "." : !texpr.tensor<3, f32>
  %g = texpr.vjp %y wrt %w from %c : !texpr.tensor<3, f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: the shapes do not fit the operation: run infer-shapes, which says why

// -----

// A pullback that is not linear has no transpose.
texpr.routine @r {
  %w = texpr.param "w" : !texpr.tensor<3, f32>
  %ct = texpr.adjoint %w : !texpr.tensor<3, f32>
  %p = texpr.apply = max(%ct, 0.0) logic "." : !texpr.tensor<3, f32>
  %y = texpr.custom %w adjoint %ct pullback (%w = %p) : !texpr.tensor<3, f32>
  %t = texpr.jvp %y wrt (%w = %w) : !texpr.tensor<3, f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: there is no forward mode through this custom gradient: its pullback is not linear in the cotangent

// -----

texpr.routine @r {
  %w = texpr.param "w" : !texpr.tensor<3, f32>
  %ct = texpr.adjoint %w : !texpr.tensor<3, f32>
  %p = texpr.apply = %ct logic "." stop : !texpr.tensor<3, f32>
  %y = texpr.custom %w adjoint %ct pullback (%w = %p) : !texpr.tensor<3, f32>
  %t = texpr.jvp %y wrt (%w = %w) : !texpr.tensor<3, f32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: there is no forward mode through this custom gradient: its pullback is not linear in the cotangent

// -----

texpr.routine @r {
  %w = texpr.param "w" : !texpr.tensor<3, f32>
  %ct = texpr.adjoint %w : !texpr.tensor<3, f32>
  %p = texpr.apply = neg(%ct) logic "." : !texpr.tensor<3, f32>
  %y = texpr.custom %w adjoint %ct pullback (%w = %ct) : !texpr.tensor<3, f32>
  texpr.forward %p
}

// CHECK: {{:[0-9]+:[0-9]+}}: the cotangent of a custom gradient has a value only inside its pullback

// -----

texpr.routine @r {
  %w = texpr.param "w" : !texpr.tensor<...o0>
  %t = texpr.jvp %w wrt (%w = %w) : !texpr.tensor<...o0>
}

// CHECK: {{:[0-9]+:[0-9]+}}: the shape ... is not final: run infer-shapes first

// -----

// What is on the way to a value of known shape.
texpr.routine @r {
  %w = texpr.param "w" : !texpr.tensor<...o0>
  %y = texpr.apply add= %w logic "... => " : !texpr.tensor<>
  texpr.zero_grads %y
  texpr.backprop %y
}

// CHECK: {{:[0-9]+:[0-9]+}}: the shape ... is not final: run infer-shapes first

// -----

texpr.routine @r {
  %w = texpr.param "w" : !texpr.tensor<3, f32>
  %m = texpr.node "m" : !texpr.tensor<3, f32>
  %y = texpr.apply [o] = mul(%m[o], %m[o]) over (o = 3) : !texpr.tensor<3, f32>
  texpr.assign %m[o] = %w[o] over (o = 3)
  texpr.backprop %y
}

// CHECK: {{:[0-9]+:[0-9]+}}: the derivative with respect to `w` would be lost in `m`, which is memory that this code has set at {{.*}}: differentiate the expression that it was set to, or say `oc.stop_gradient(m)` if it is constant here

// -----

// A kept value is the one before a write, and what it was computed from is gone.
texpr.routine @r {
  %w = texpr.param "w" : !texpr.tensor<f32>
  %n = texpr.node "n" : !texpr.tensor<f32>
  %y = texpr.apply [] = mul(%w[], %w[]) over () : !texpr.tensor<f32>
  texpr.forward %y keep
  texpr.assign %n[] = %y[] over ()
  texpr.backprop %y
  texpr.assign %w[] = %n[] over ()
  texpr.backprop %y
}

// CHECK: {{:[0-9]+:[0-9]+}}: `y` was computed before memory that it reads was written at {{.*}}: differentiate it before that, or make it again afterwards
// CHECK-NEXT: hint: two optimizers of one loss update by the same gradients: train.grad_update(loss), and then update(loss, params=[...]) of each
