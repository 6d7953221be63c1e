// RUN: ocannl-opt %s -p infer-projections,differentiate --split-input-file --verify-diagnostics | filecheck %s

texpr.routine @r {
  %w = texpr.param "w" : !texpr.tensor<3, f32>
  %y = texpr.apply mul= %w logic "a =>" : !texpr.tensor<f32>
  texpr.backprop %y
}

// CHECK: {{:[0-9]+:[0-9]+}}: there is no gradient through an accumulation by `mul`
