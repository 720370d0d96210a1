//! Headers and attributes: small ordered maps without repeated names.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! ordered_map {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct $name(Vec<(String, String)>);

        impl $name {
            /// Sets a name; an existing one keeps its place and gets the new value.
            pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
                let (name, value) = (name.into(), value.into());
                match self.0.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, old)) => *old = value,
                    None => self.0.push((name, value)),
                }
            }

            /// The value of a name.
            pub fn get(&self, name: &str) -> Option<&str> {
                self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
            }

            /// Every name with its value, in the order in which they were set.
            pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
                self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
            }

            /// How many there are.
            pub fn len(&self) -> usize {
                self.0.len()
            }

            /// Whether there is none.
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }

            /// Reads a JSON object of strings, the form of the table's column.
            ///
            /// Numbers and booleans are taken as their text, because foreign hands write them.
            ///
            /// # Errors
            /// What is wrong, in words, when the text is not such an object.
            pub fn from_json(text: &str) -> Result<Self, String> {
                let value: serde_json::Map<String, serde_json::Value> =
                    serde_json::from_str(text).map_err(|error| format!("expected a JSON object of strings: {error}"))?;
                let mut map = Self::default();
                for (name, value) in value {
                    let value = match value {
                        serde_json::Value::String(text) => text,
                        serde_json::Value::Number(number) => number.to_string(),
                        serde_json::Value::Bool(truth) => truth.to_string(),
                        serde_json::Value::Null | serde_json::Value::Array(_) | serde_json::Value::Object(_) => {
                            return Err(format!("expected a string as the value of {name:?}"));
                        }
                    };
                    map.set(name, value);
                }
                Ok(map)
            }

            /// Writes the JSON object of the table's column; none when there is nothing to write.
            pub fn to_json(&self) -> Option<String> {
                (!self.is_empty()).then(|| serde_json::to_string(self).unwrap_or_default())
            }

            pub(crate) fn weight(&self) -> usize {
                self.0.iter().map(|(name, value)| name.len() + value.len()).sum()
            }
        }

        impl FromIterator<(String, String)> for $name {
            fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
                let mut map = Self::default();
                for (name, value) in pairs {
                    map.set(name, value);
                }
                map
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_map(self.iter())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let map = serde_json::Map::deserialize(deserializer)?;
                let text = serde_json::Value::Object(map).to_string();
                Self::from_json(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}

ordered_map!(
    /// The headers of a message: names to strings, order kept, no repeated names.
    Headers
);
ordered_map!(
    /// What one broker alone understands, as `prefix.name`; each broker parses and validates its own prefix.
    Attributes
);
