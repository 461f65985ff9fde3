# needs: keras
"""Keras 3 with the torch backend: a functional model compiled earlier, fit() with callbacks."""
import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(812)

# %%
x_train = np.random.rand(384, 12, 12, 1).astype("float32")
y_train = (x_train[:, :6].mean((1, 2, 3)) > x_train[:, 6:].mean((1, 2, 3))).astype("int32")
inputs = keras.Input((12, 12, 1))
h = layers.Conv2D(8, 3, activation="relu")(inputs)
h = layers.MaxPooling2D()(h)
h = layers.Dropout(0.1)(layers.Flatten()(h))
model = keras.Model(inputs, layers.Dense(2, activation="softmax")(h))
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])


class Weights(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.norms = []

    def on_epoch_end(self, epoch, logs=None):
        self.norms.append(float(np.linalg.norm(self.model.get_weights()[0])))


# %%
weights = Weights()
callbacks = [weights, keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=2)]

# %% train
history = model.fit(x_train, y_train, batch_size=32, epochs=14, validation_split=0.2, callbacks=callbacks, verbose=2)
losses = history.history["loss"]

# %%
print([round(v, 3) for v in losses], round(float(model.evaluate(x_train, y_train, verbose=0)[0]), 3))
print([round(v, 4) for v in weights.norms])
